import { type DeepReadonly, ignoreNotFound, jsonEquals } from "@keelson/api-machinery";
import { Node, type NodeObject, Pod } from "@keelson/api-machinery/kinds";
import { type Taint, tolerationOf } from "@keelson/api-machinery/scheduling";
import { type ControllerDefinition, defineController, watchOf } from "@keelson/controller";
import { type CachedPod, isPodTerminating } from "../workload/pod-state.ts";
import { podRequestsOnNode, readPodsByNode } from "../workload/pods-by-node.ts";

/** What to do with a Pod on a node with taints. */
export type TaintDecision =
  | { readonly kind: "keep" }
  /** The Pod tolerates the taints for `ms` more. */
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "evict" };

/** Decides about a Pod on a node with these taints of effect `NoExecute`, which it has had since `since`, at the latest. */
export function decideTaintedPod(pod: CachedPod, taints: readonly Taint[], since: number, now: number): TaintDecision {
  if (taints.length === 0 || isPodTerminating(pod)) return { kind: "keep" };
  const tolerations = taints.map((taint) => tolerationOf(pod, taint));
  if (tolerations.includes(undefined)) return { kind: "evict" };
  const seconds = Math.min(...tolerations.map((toleration) => toleration?.tolerationSeconds ?? Number.POSITIVE_INFINITY));
  if (seconds === Number.POSITIVE_INFINITY) return { kind: "keep" };
  const remainingMs = since + seconds * 1000 - now;
  return remainingMs > 0 ? { kind: "wait", ms: remainingMs } : { kind: "evict" };
}

const evictingTaints = (node: DeepReadonly<NodeObject> | undefined): readonly Taint[] =>
  (node?.spec?.taints ?? []).filter(({ effect }) => effect === "NoExecute");

const condition = {
  type: "DisruptionTarget",
  status: "True",
  reason: "DeletionByTaintManager",
  message: "Taint manager: deleting due to NoExecute taint",
};

/**
 * Deletes Pods that do not tolerate a taint of their node with the effect `NoExecute`, or no longer do, as kube-controller-manager does. A
 * restart prolongs the time for which Pods tolerate a taint.
 */
export function createTaintEvictionController(): ControllerDefinition {
  /** When each Pod with a limited toleration was first found on a tainted node. */
  const waiting = new Map<string, { readonly uid: string | undefined; readonly since: number }>();
  return defineController({
    name: "taint-eviction",
    for: Pod,
    reads: [readPodsByNode()],
    watches: [
      watchOf(Node, ({ metadata }, { cache }) => podRequestsOnNode(cache, metadata.name ?? ""), [
        (change) => change.type !== "update" || !jsonEquals(evictingTaints(change.old), evictingTaints(change.object)),
      ]),
    ],
    async reconcile(request, { cache, client, clock, events, signal }) {
      const key = `${request.namespace ?? ""}/${request.name}`;
      const pod = cache.get(Pod, request);
      const { nodeName = "" } = pod?.spec ?? {};
      const taints = nodeName === "" ? [] : evictingTaints(cache.get(Node, { name: nodeName }));
      const uid = pod?.metadata.uid;
      const known = waiting.get(key);
      const now = clock.monotonic();
      const since = known !== undefined && known.uid === uid ? known.since : now;
      const decision = pod === undefined ? undefined : decideTaintedPod(pod, taints, since, now);
      if (decision?.kind === "wait") {
        waiting.set(key, { uid, since });
        return { requeueAfterMs: decision.ms };
      }
      waiting.delete(key);
      if (pod === undefined || decision?.kind !== "evict") return undefined;
      events.event(pod, { type: "Normal", reason: "TaintManagerEviction", note: `Marking for deletion Pod ${key}` });
      const found = pod.status?.conditions?.find(({ type, status }) => type === condition.type && status === condition.status);
      const lastTransitionTime = found?.lastTransitionTime ?? new Date(clock.now()).toISOString();
      // Only this condition: the cache's copy of the others may be old.
      const body = { metadata: { uid }, status: { conditions: [{ ...condition, lastTransitionTime }] } };
      await ignoreNotFound(client.patch(Pod, request, { type: "strategic", body }, { subresource: "status", signal }));
      const preconditions = uid === undefined ? {} : { preconditions: { uid } };
      await ignoreNotFound(client.delete(Pod, request, { ...preconditions, signal }));
      return undefined;
    },
  });
}
