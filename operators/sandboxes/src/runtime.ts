import type { ReconcileContext } from "@keelson/controller";
import { ServiceKey } from "@keelson/operator";
import type { AgentClient } from "./fleet/agent-client.ts";
import type { AgentPlacement } from "./fleet/agent-pod.ts";
import type { AgentStatus } from "./protocol/protocol.ts";
import type { Registry } from "./registry/registry.ts";
import type { RejectedCreates } from "./registry/rejected-creates.ts";

/** State shared by the family's server and controllers: facts about agents that are not in the API. */
export interface Runtime {
  readonly placement: AgentPlacement;
  readonly registry: Registry;
  /** The client of a reporting agent. */
  agentClient(namespace: string, name: string): AgentClient | undefined;
  /** The last status of an agent, while it reports. */
  agentStatus(namespace: string, name: string): AgentStatus | undefined;
  /** Calls `listener` after the number of sandboxes of an agent has changed, by the registry or by its report. Returns the way to stop. */
  onLoadChange(listener: (pool: { readonly namespace: string; readonly name: string }) => void): () => void;
  /** Creates that were rejected because no agent had a free slot. */
  readonly rejected: RejectedCreates;
  /** Whether the fast path has not yet written the object of a sandbox. */
  isPending(sandboxId: string): boolean;
}

/** The {@link Runtime} of a running operator. Its server provides it before the controllers start. */
export const runtimeKey = new ServiceKey<Runtime>("sandboxes runtime");

/** Context of the family's reconciles. */
export interface SandboxesContext extends ReconcileContext {
  readonly runtime: Runtime;
}

/** Adds the runtime to a reconcile's context. The context's properties may be getters of a prototype, which a spread would drop. */
export function withRuntime(context: ReconcileContext, runtime: Runtime): SandboxesContext {
  const { client, cache, clock, log, events, signal } = context;
  return { client, cache, clock, log, events, signal, runtime };
}
