import type { DeepReadonly } from "@keelson/api-machinery";
import type { Trigger } from "@keelson/controller";
import type { OperatorServices } from "@keelson/operator";
import { Sandbox, startingPhases } from "../api/sandbox.ts";
import { type Runtime, runtimeKey } from "../runtime.ts";

/**
 * Reconciles the starting sandboxes of a pool when an agent reports, and those that are being deleted unless their agent is still stopping
 * them. They wait for that report, which changes no object.
 */
export function agentReports(services: OperatorServices): Trigger {
  return {
    start: ({ cache, enqueue }) => {
      const runtime = services.get(runtimeKey);
      return runtime.onLoadChange(({ namespace, name: pool }) => {
        const isStopping = stoppingIn(runtime, namespace);
        for (const sandbox of cache.list(Sandbox, { namespace, index: ["pool", pool] })) {
          const { metadata, status } = sandbox;
          const isDue = metadata.deletionTimestamp === undefined ? startingPhases.has(status?.phase) : !isStopping(sandbox);
          if (isDue) enqueue({ namespace: metadata.namespace, name: metadata.name ?? "" });
        }
      });
    },
  };
}

/** Whether its agent reports that it is stopping a sandbox. The sandboxes of an agent are looked up once. */
function stoppingIn(runtime: Runtime, namespace: string): (sandbox: DeepReadonly<Sandbox>) => boolean {
  const stopping = new Map<string, ReadonlySet<string>>();
  const idsOn = (agent: string): ReadonlySet<string> => {
    const reported = runtime.agentStatus(namespace, agent)?.sandboxStatuses ?? [];
    const ids = new Set(reported.filter(({ phase }) => phase === "terminating").map(({ sandboxId }) => sandboxId));
    stopping.set(agent, ids);
    return ids;
  };
  return ({ status: { assignedPod = "", sandboxID = "" } = {} }) =>
    (stopping.get(assignedPod) ?? idsOn(assignedPod)).has(sandboxID);
}
