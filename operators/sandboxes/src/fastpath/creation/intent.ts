import type { Clock } from "@keelson/api-machinery/time";
import type { AgentClient } from "../../fleet/agent-client.ts";
import { agentSandbox } from "../../fleet/agent-sandbox.ts";
import type { CreateAnswer } from "../../protocol/protocol.ts";
import type { RegisteredAgent } from "../../registry/registry.ts";
import type { FastRequest } from "./fast-request.ts";
import type { Intent } from "./intent-log.ts";

/** The intent to create the requested sandbox on an agent. */
export function intentFor(
  { namespace, name, spec, labels, requestId, volumes }: FastRequest,
  agent: RegisteredAgent,
  { sandboxId, clock }: { readonly sandboxId: string; readonly clock: Clock },
): Intent {
  return {
    ...{ namespace, name, spec, labels },
    sandboxId,
    agent: agent.name,
    node: agent.node,
    ...(requestId !== undefined && { requestId }),
    ...(volumes !== undefined && { volumes: volumes.mounts }),
    at: clock.now(),
  };
}

/** Starts a sandbox on its agent, if the agent reports. An error counts as a failure with possible side effects. */
export async function startOnAgent(
  { namespace, agent, sandboxId, name, spec, volumes }: Intent,
  client: AgentClient | undefined,
): Promise<CreateAnswer> {
  if (client === undefined) return { success: false, rejected: true, sandboxId, message: `agent ${agent} has not reported` };
  const env = Object.fromEntries((spec.envs ?? []).map((each) => [each.name, each.value ?? ""]));
  try {
    return await client.create(agentSandbox({ sandboxId, claimUid: "", claimName: name, namespace }, spec, env, volumes));
  } catch (error) {
    return { success: false, sandboxId, message: error instanceof Error ? error.message : String(error) };
  }
}
