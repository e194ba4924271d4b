import { ignoreNotFound } from "@keelson/api-machinery";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf, watchOf } from "@keelson/controller";
import { isPodTerminating, type CachedPod } from "../workload/pod-state.ts";

const nodeIndex = "node";

/** Indexes Pods by node. */
const byNode = (pod: CachedPod): readonly string[] => (pod.spec.nodeName ? [pod.spec.nodeName] : []);

/** A Pod may be bound to a node that is about to join: how long it is left, as in kube-controller-manager. */
const quarantineMs = 40_000;

/** What to do with a Pod that no kubelet may terminate. */
export type LostPodDecision =
  | { readonly kind: "keep" }
  /** Its node does not exist. To be decided again after `ms`. */
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "delete"; readonly why: "node-deleted" | "never-bound" };

/** Decides about a Pod. `hasNode` says whether the node that it is bound to exists. */
export function decideLostPod(pod: CachedPod, hasNode: boolean, now: number): LostPodDecision {
  if (!pod.spec.nodeName) return isPodTerminating(pod) ? { kind: "delete", why: "never-bound" } : { kind: "keep" };
  if (hasNode) return { kind: "keep" };
  const left = Date.parse(pod.metadata.creationTimestamp ?? "") + quarantineMs - now;
  return left > 0 ? { kind: "wait", ms: left } : { kind: "delete", why: "node-deleted" };
}

/** Deletes Pods whose node no longer exists, and terminating Pods that were never bound. */
export const podGarbageController: ControllerDefinition = defineController({
  name: "podgc",
  for: Pod,
  predicates: [({ type }) => type !== "delete"],
  reads: [readOf(Pod, { [nodeIndex]: byNode })],
  watches: [
    watchOf(
      Node,
      ({ metadata }, { cache }) =>
        cache
          .list(Pod, { index: [nodeIndex, metadata.name ?? ""] })
          .map((pod) => ({ namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" })),
      [({ type }) => type === "delete"],
    ),
  ],
  async reconcile(request, { cache, client, clock, events, signal }) {
    const pod = cache.get(Pod, request);
    if (pod === undefined) return undefined;
    const { nodeName = "" } = pod.spec;
    const hasNode = nodeName !== "" && cache.get(Node, { name: nodeName }) !== undefined;
    const decision = decideLostPod(pod, hasNode, clock.now());
    if (decision.kind === "keep") return undefined;
    if (decision.kind === "wait") return { requeueAfterMs: decision.ms };
    const isOrphaned = decision.why === "node-deleted";
    // The node cache may lag behind the Pod cache, so the node is confirmed to be absent.
    if (isOrphaned && (await ignoreNotFound(client.get(Node, { name: nodeName }, { signal }))) !== undefined) return undefined;
    const uid = pod.metadata.uid;
    const deleted = await ignoreNotFound(
      client.delete(Pod, request, {
        gracePeriodSeconds: 0,
        ...(uid === undefined ? {} : { preconditions: { uid } }),
        signal,
      }),
    );
    if (isOrphaned && deleted !== undefined) {
      events.event(pod, { type: "Normal", reason: "PodGC", note: `node ${nodeName} no longer exists` });
    }
    return undefined;
  },
});
