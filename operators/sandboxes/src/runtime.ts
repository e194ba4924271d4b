import type { Cache } from "@keelson/controller";
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

const runtimes = new WeakMap<Cache, Runtime>();

/** Lets the controllers of a manager find what its server made. */
export function provideRuntime(cache: Cache, runtime: Runtime): void {
  runtimes.set(cache.shared, runtime);
}

/** What the server of this manager made. Throws before it has: servers start before controllers. */
export function runtimeOf(cache: Cache): Runtime {
  const runtime = runtimes.get(cache.shared);
  if (runtime === undefined) throw new Error("the sandboxes server does not run in this process");
  return runtime;
}
