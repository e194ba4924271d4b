import type { Trigger } from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import { Sandbox } from "../api/sandbox.ts";
import { runtimeKey } from "../runtime.ts";

/** Phases that end with a report of the agent. */
const startingPhases: ReadonlySet<string | undefined> = new Set([undefined, "Creating", "Bound"]);

/**
 * Reconciles the starting sandboxes of a pool when an agent reports. A sandbox that was created on its agent first waits for that report,
 * which changes no object.
 */
export function agentReports(services: OperatorServices): Trigger {
  return {
    start: ({ cache, enqueue }) =>
      services.get(runtimeKey).onLoadChange(({ namespace, name: pool }) => {
        for (const { metadata, status } of cache.list(Sandbox, { namespace, index: ["pool", pool] })) {
          if (startingPhases.has(status?.phase)) enqueue({ namespace: metadata.namespace, name: metadata.name ?? "" });
        }
      }),
  };
}
