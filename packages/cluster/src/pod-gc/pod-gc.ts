import { ignoreNotFound } from "@keelson/api-machinery";
import { Node, Pod } from "@keelson/api-machinery/kinds";
import {
  type ControllerDefinition,
  defineController,
  readOf,
  type ReconcileContext,
  type Request,
  type Result,
  watchOf,
} from "@keelson/controller";
import { isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { podRequestsOnNode, readPodsByNode } from "../workload/pods-by-node.ts";
import { defaultTerminatedPodThreshold, surplusPods } from "./terminated-pods.ts";

/** Grace period for a node to register, or to register again, as in kube-controller-manager. */
const quarantineMs = 40_000;

/** Maximum number of terminated Pods that are deleted at the same time, and pause before the next. */
const maxDeletions = 20;
const nextDeletionsMs = 100;

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

/** Options of {@link createPodGarbageController}. */
export interface PodGarbageOptions {
  /** Number of terminated Pods above which the oldest are deleted; 0 keeps all. Default: 12,500. */
  readonly terminatedPodThreshold?: number;
}

/** The request for all terminated Pods together, which no Pod has. */
const allTerminated: Request = { name: "" };

const terminatedIndex = "terminated";
const isTerminated = (pod: CachedPod): boolean => isPodTerminal(pod) && !isPodTerminating(pod);
const byTermination = (pod: CachedPod): readonly string[] => (isTerminated(pod) ? [terminatedIndex] : []);

/** The status of a Pod that is marked as failed, as kube-controller-manager does. */
const failedStatus = (uid: string | undefined, conditions: readonly object[]): object => ({
  metadata: { uid },
  status: { phase: "Failed", ...(conditions.length === 0 ? {} : { conditions }) },
});

/** The condition of a Pod whose node no longer exists. */
const orphanCondition = (now: number): object => ({
  type: "DisruptionTarget",
  status: "True",
  reason: "DeletionByPodGC",
  message: "PodGC: node no longer exists",
  lastTransitionTime: new Date(now).toISOString(),
});

/** Deletes Pods whose node no longer exists, terminating Pods that were never bound, and the oldest of too many terminated Pods. */
export function createPodGarbageController({
  terminatedPodThreshold = defaultTerminatedPodThreshold,
}: PodGarbageOptions = {}): ControllerDefinition {
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
    reads: [readPodsByNode(), readOf(Pod, { [terminatedIndex]: byTermination })],
    watches: [
      watchOf(Pod, (pod) => (isTerminated(pod) ? [allTerminated] : [])),
      watchOf(
        Node,
        ({ metadata }, { cache }) => podRequestsOnNode(cache, metadata.name ?? ""),
        // A node that registers again ends the grace period.
        [({ type }) => type !== "update"],
      ),
    ],
    async reconcile(request, context) {
      if (request.name === allTerminated.name) return deleteSurplus(context, terminatedPodThreshold);
      const { cache, clock } = context;
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
      await deleteLost(context, pod, decision.why);
      return undefined;
    },
  });
}

/** Marks a Pod that no kubelet may terminate as failed, so that its controller can judge it, and deletes it. */
async function deleteLost(
  { client, clock, events, signal }: ReconcileContext,
  pod: CachedPod,
  why: "node-deleted" | "never-bound",
): Promise<void> {
  const { namespace, name = "", uid } = pod.metadata;
  const { nodeName = "" } = pod.spec;
  const key = { namespace, name };
  const isOrphaned = why === "node-deleted";
  // The node cache may lag behind the Pod cache, so the node is confirmed to be absent.
  if (isOrphaned && (await ignoreNotFound(client.get(Node, { name: nodeName }, { signal }))) !== undefined) return;
  if (!isPodTerminal(pod)) {
    const body = failedStatus(uid, isOrphaned ? [orphanCondition(clock.now())] : []);
    await ignoreNotFound(client.patch(Pod, key, { type: "strategic", body }, { subresource: "status", signal }));
  }
  const preconditions = uid === undefined ? {} : { preconditions: { uid } };
  const deleted = await ignoreNotFound(client.delete(Pod, key, { gracePeriodSeconds: 0, ...preconditions, signal }));
  if (!isOrphaned || deleted === undefined) return;
  events.event(pod, { type: "Normal", reason: "PodGC", note: `node ${nodeName} no longer exists` });
}

/** Deletes terminated Pods above a threshold, `maxDeletions` at a time. A change of any terminated Pod calls it again. */
async function deleteSurplus({ cache, client, signal }: ReconcileContext, threshold: number): Promise<Result | undefined> {
  const surplus = surplusPods(cache.list(Pod, { index: [terminatedIndex, terminatedIndex] }), threshold, maxDeletions);
  await Promise.all(
    surplus.map(({ metadata: { namespace, name = "", uid } }) => {
      const preconditions = uid === undefined ? {} : { preconditions: { uid } };
      return ignoreNotFound(client.delete(Pod, { namespace, name }, { gracePeriodSeconds: 0, ...preconditions, signal }));
    }),
  );
  // There may be more.
  return surplus.length < maxDeletions ? undefined : { requeueAfterMs: nextDeletionsMs };
}
