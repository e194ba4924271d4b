import { isAlreadyExists, jsonEquals } from "@keelson/api-machinery";
import { ControllerRevision, DaemonSet, Node, type NodeObject, Pod } from "@keelson/api-machinery/kinds";
import { type Change, type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { FailedPodBackoff } from "../workload/failed-pod-backoff.ts";
import { byController, controllerIndex, orphansOf, workloadSelector } from "../workload/ownership.ts";
import { performWrites, resultOf } from "../workload/perform-writes.ts";
import { earlier } from "../workload/write.ts";
import { decideDaemonSet } from "./daemonset-decision.ts";
import { nodeOf } from "./daemonset-pod.ts";

/** Runs a Pod of a DaemonSet on every eligible node. */
export function createDaemonSetController(): ControllerDefinition {
  const backoff = new FailedPodBackoff();
  return defineController({
    name: "daemonset",
    for: DaemonSet,
    owns: [Pod, ControllerRevision],
    reads: [readOf(Pod, { [controllerIndex]: byController }), readOf(ControllerRevision, { [controllerIndex]: byController })],
    watches: [
      watchOf(
        Node,
        (_node, { cache }) => cache.list(DaemonSet).map(({ metadata: { namespace, name } }) => ({ namespace, name })),
        [affectsDaemons],
      ),
      // An orphan may be adopted by any DaemonSet that selects it.
      watchOf(Pod, (pod, { cache }) => {
        const { namespace, labels, ownerReferences } = pod.metadata;
        if (ownerReferences?.some(({ controller }) => controller)) return [];
        return cache
          .list(DaemonSet, { namespace })
          .filter(({ spec }) => workloadSelector(spec.selector).matches(labels))
          .map(({ metadata: { name } }) => ({ namespace, name }));
      }),
    ],
    maxConcurrentReconciles: 2,
    async reconcile(request, context) {
      const { cache, clock, client, signal } = context;
      const set = cache.get(DaemonSet, request);
      if (set === undefined) return undefined;
      const keys = [set.metadata.uid ?? "", orphansOf(request.namespace)];
      const hold = backoff.hold((pod) => `${set.metadata.uid}/${nodeOf(pod)}`, clock.monotonic());
      const decision = decideDaemonSet(
        {
          isHeld: hold.isHeld,
          set,
          nodes: cache.list(Node),
          pods: keys.flatMap((value) => cache.list(Pod, { index: [controllerIndex, value] })),
          revisions: keys.flatMap((value) => cache.list(ControllerRevision, { index: [controllerIndex, value] })),
        },
        clock.now(),
      );
      try {
        await performWrites(decision.writes, context);
      } catch (error) {
        const first = decision.writes[0];
        if (!isAlreadyExists(error) || first?.kind !== "create" || first.type.kind !== "ControllerRevision") throw error;
        // Another template has the same hash: a new collision count changes the name.
        const status = { ...set.status, collisionCount: (set.status?.collisionCount ?? 0) + 1 };
        await client.updateStatus(DaemonSet, { ...set, status }, { signal });
      }
      return resultOf({ ...decision, requeueAfterMs: earlier(decision.requeueAfterMs, hold.requeueAfterMs) });
    },
  });
}

/** Heartbeats change nothing that matters for daemon Pods. */
function affectsDaemons({ type, object, old }: Change<NodeObject>): boolean {
  if (type !== "update" || old === undefined) return true;
  return !jsonEquals(old.spec, object.spec) || !jsonEquals(old.metadata.labels, object.metadata.labels);
}
