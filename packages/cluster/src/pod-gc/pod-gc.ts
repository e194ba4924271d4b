import { ignoreNotFound } from "@keelson/api-machinery";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, watchOf } from "@keelson/controller";
import { isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { podRequestsOnNode, readPodsByNode } from "../workload/pods-by-node.ts";

/** Grace period for a node to register, or to register again, as in kube-controller-manager. */
const quarantineMs = 40_000;

/** What to do with a Pod that no kubelet may terminate. */
export type LostPodDecision =
  | { readonly kind: "keep" }
  /** Its node is missing. Requeue after `ms`. */
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "delete"; readonly why: "node-deleted" | "never-bound" };

/** Decides about a Pod. `missingSince` is when its node was first found missing; undefined if the node exists. */
export function decideLostPod(pod: CachedPod, missingSince: number | undefined, now: number): LostPodDecision {
  if (!pod.spec.nodeName) return isPodTerminating(pod) ? { kind: "delete", why: "never-bound" } : { kind: "keep" };
  if (missingSince === undefined) return { kind: "keep" };
  const left = missingSince + quarantineMs - now;
  return left > 0 ? { kind: "wait", ms: left } : { kind: "delete", why: "node-deleted" };
}

/** Deletes Pods whose node no longer exists, and terminating Pods that were never bound. */
export function createPodGarbageController(): ControllerDefinition {
  /** When each missing node was first found missing. A restart prolongs the grace period. */
  const missing = new Map<string, number>();
  const missingSince = (nodeName: string, hasNode: boolean, now: number): number | undefined => {
    if (nodeName === "" || hasNode) {
      missing.delete(nodeName);
      return undefined;
    }
    const since = missing.get(nodeName) ?? now;
    missing.set(nodeName, since);
    return since;
  };
  return defineController({
    name: "podgc",
    for: Pod,
    predicates: [({ type }) => type !== "delete"],
    reads: [readPodsByNode()],
    watches: [
      watchOf(
        Node,
        ({ metadata }, { cache }) => podRequestsOnNode(cache, metadata.name ?? ""),
        // A node that registers again ends the grace period.
        [({ type }) => type !== "update"],
      ),
    ],
    async reconcile(request, { cache, client, clock, events, signal }) {
      const pod = cache.get(Pod, request);
      if (pod === undefined) return undefined;
      const { nodeName = "" } = pod.spec;
      const hasNode = nodeName !== "" && cache.get(Node, { name: nodeName }) !== undefined;
      const now = clock.monotonic();
      const found = missingSince(nodeName, hasNode, now);
      // The node may have been missing long before this Pod was created.
      const ageMs = clock.now() - Date.parse(pod.metadata.creationTimestamp ?? "1970-01-01T00:00:00Z");
      const since = found === undefined ? undefined : Math.max(found, now - ageMs);
      const decision = decideLostPod(pod, since, now);
      if (decision.kind === "keep") return undefined;
      if (decision.kind === "wait") return { requeueAfterMs: decision.ms };
      const isOrphaned = decision.why === "node-deleted";
      // The node cache may lag behind the Pod cache, so the node is confirmed to be absent.
      if (isOrphaned && (await ignoreNotFound(client.get(Node, { name: nodeName }, { signal }))) !== undefined)
        return undefined;
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
}
