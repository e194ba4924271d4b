import { isStatusError } from "@keelson/api-machinery";
import { Pod, ReplicaSet } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { byController, controllerIndex, orphansOf, workloadSelector } from "../workload/ownership.ts";
import { performWrites, resultOf } from "../workload/perform-writes.ts";
import { decideReplicaSetPods, decideReplicaSetStatus } from "./replicaset-decision.ts";

/** Keeps the number of Pods that a ReplicaSet requests. */
export const replicaSetController: ControllerDefinition = defineController({
  name: "replicaset",
  for: ReplicaSet,
  owns: [Pod],
  reads: [readOf(Pod, { [controllerIndex]: byController })],
  watches: [
    // An orphan may be adopted by any ReplicaSet that selects it.
    watchOf(Pod, (pod, { cache }) => {
      const { namespace, labels, ownerReferences } = pod.metadata;
      if (ownerReferences?.some(({ controller }) => controller)) return [];
      return cache
        .list(ReplicaSet, { namespace })
        .filter(({ spec }) => workloadSelector(spec.selector).matches(labels))
        .map(({ metadata: { name } }) => ({ namespace, name }));
    }),
  ],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache, clock, signal } = context;
    const replicaSet = cache.get(ReplicaSet, request);
    if (replicaSet === undefined) return undefined;
    const pods = [replicaSet.metadata.uid ?? "", orphansOf(request.namespace)].flatMap((value) =>
      cache.list(Pod, { index: [controllerIndex, value] }),
    );
    const observed = { replicaSet, pods };
    const writes = decideReplicaSetPods(observed);
    try {
      await performWrites(writes, context);
    } catch (error) {
      if (!isStatusError(error) || error.status.reason === "Conflict" || signal.aborted) throw error;
      // The status says why there are too few or too many Pods; the error triggers the retry.
      const reason = writes[0]?.kind === "delete" ? "FailedDelete" : "FailedCreate";
      await performWrites(decideReplicaSetStatus(observed, clock.now(), { reason, message: error.message }).writes, context);
      throw error;
    }
    const status = decideReplicaSetStatus(observed, clock.now());
    await performWrites(status.writes, context);
    return resultOf(status);
  },
});
