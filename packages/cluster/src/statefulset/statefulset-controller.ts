import { getController, isAlreadyExists } from "@keelson/api-machinery";
import { ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { FailedPodBackoff } from "../workload/failed-pod-backoff.ts";
import { byController, controllerIndex, orphansOf, workloadSelector } from "../workload/ownership.ts";
import { performWrites, resultOf } from "../workload/perform-writes.ts";
import { earlier } from "../workload/write.ts";
import { decideStatefulSet } from "./statefulset-decision.ts";
import { ordinalOf } from "./statefulset-pod.ts";

/** Maintains the ordered Pods of a StatefulSet, each with its own volumes. */
export function createStatefulSetController(): ControllerDefinition {
  const backoff = new FailedPodBackoff();
  return defineController({
    name: "statefulset",
    for: StatefulSet,
    owns: [Pod, ControllerRevision],
    reads: [readOf(Pod, { [controllerIndex]: byController }), readOf(ControllerRevision, { [controllerIndex]: byController })],
    watches: [
      watchOf(Pod, (pod, { cache }) => {
        if (getController(pod) !== undefined) return [];
        const { namespace, labels } = pod.metadata;
        return cache
          .list(StatefulSet, { namespace })
          .filter((set) => ordinalOf(set, pod) !== undefined && workloadSelector(set.spec.selector).matches(labels))
          .map(({ metadata: { name } }) => ({ namespace, name }));
      }),
      // A deleted claim must be recreated before the next Pod.
      watchOf(
        PersistentVolumeClaim,
        (claim, { cache }) => {
          const { namespace, name } = claim.metadata;
          return cache
            .list(StatefulSet, { namespace })
            .filter(({ metadata, spec }) =>
              (spec.volumeClaimTemplates ?? []).some((one) => name.startsWith(`${one.metadata?.name}-${metadata.name}-`)),
            )
            .map(({ metadata }) => ({ namespace, name: metadata.name ?? "" }));
        },
        [({ type }) => type === "delete"],
      ),
    ],
    maxConcurrentReconciles: 5,
    async reconcile(request, context) {
      const { cache, clock, client, signal } = context;
      const set = cache.get(StatefulSet, request);
      if (set === undefined) return undefined;
      const keys = [set.metadata.uid ?? "", orphansOf(request.namespace)];
      const pods = keys.flatMap((value) => cache.list(Pod, { index: [controllerIndex, value] }));
      const revisions = keys.flatMap((value) => cache.list(ControllerRevision, { index: [controllerIndex, value] }));
      const claims =
        (set.spec.volumeClaimTemplates ?? []).length > 0
          ? cache.list(PersistentVolumeClaim, { namespace: request.namespace })
          : [];
      const hold = backoff.hold((pod) => `${set.metadata.uid}/${pod.metadata.name}`, clock.monotonic());
      const decision = decideStatefulSet({ set, pods, revisions, claims, isHeld: hold.isHeld }, clock.now());
      try {
        await performWrites(decision.writes, context);
      } catch (error) {
        const made = decision.writes[0];
        if (!isAlreadyExists(error) || made?.kind !== "create" || made.type.kind !== "ControllerRevision") throw error;
        // Another template has the same hash: a new collision count changes the name.
        const status = { ...set.status, collisionCount: (set.status?.collisionCount ?? 0) + 1 };
        await client.updateStatus(StatefulSet, { ...set, status }, { signal });
      }
      return resultOf({ ...decision, requeueAfterMs: earlier(decision.requeueAfterMs, hold.requeueAfterMs) });
    },
  });
}
