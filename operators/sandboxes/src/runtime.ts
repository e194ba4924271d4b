import type { ReconcileContext } from "@keelson/controller";
import { ServiceKey } from "@keelson/operator";
import type { AgentClient } from "./fleet/agent-client.ts";
import type { AgentPlacement } from "./fleet/agent-pod.ts";
import type { AgentStatus } from "./protocol/protocol.ts";
import type { Registry } from "./registry/registry.ts";

/** What the family's server and controllers share in one process: facts about agents that are not in the API. */
export interface Runtime {
  readonly placement: AgentPlacement;
  readonly registry: Registry;
  /** A client of an agent that is heard of. */
  agentClient(namespace: string, name: string): AgentClient | undefined;
  /** The last that an agent said, while it is heard of. */
  agentStatus(namespace: string, name: string): AgentStatus | undefined;
  /** Whether the fast path still has a sandbox in hand that the API may not know. */
  isInHand(sandboxId: string): boolean;
}

/** The {@link Runtime} of a running operator. Its server provides it before the controllers start. */
export const runtimeKey = new ServiceKey<Runtime>("sandboxes runtime");

/** What the reconciles of the family's controllers work with. */
export interface SandboxesContext extends ReconcileContext {
  readonly runtime: Runtime;
}
