import { jsonEquals } from "@keelson/api-machinery";
import { Pod, ReplicaSet, type ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { claim, workloadSelector } from "../workload/ownership.ts";
import { podFromTemplate } from "../workload/pod-from-template.ts";
import { countPods, isPodActive, isPodTerminating, type SeenPod } from "../workload/pod-state.ts";
import { type WorkloadCondition, withCondition, withoutCondition } from "../workload/workload-conditions.ts";
import type { Decision, Seen, Write } from "../workload/write.ts";
import { byDeletionRank } from "./deletion-rank.ts";

/** At most this many Pods are made or deleted at once: the watch then shows how it went before there are more. */
const burst = 500;

/** What a ReplicaSet is decided upon. */
export interface ObservedReplicaSet {
  readonly replicaSet: Seen<ReplicaSetObject>;
  /** Pods of its namespace that it controls, or that nobody does. */
  readonly pods: readonly SeenPod[];
}

/** The writes to Pods that bring a ReplicaSet to its size. Those that only change owners come alone. */
export function decideReplicaSetPods({ replicaSet, pods }: ObservedReplicaSet): readonly Write[] {
  const claims = claim(replicaSet, workloadSelector(replicaSet.spec.selector), Pod, pods);
  if (claims.writes.length > 0) return claims.writes;
  if (replicaSet.metadata.deletionTimestamp !== undefined) return [];
  const active = claims.owned.filter(isPodActive);
  const missing = (replicaSet.spec.replicas ?? 1) - active.length;
  if (missing > 0) {
    const object = podFromTemplate(replicaSet, replicaSet.spec.template);
    return Array.from({ length: Math.min(missing, burst) }, () => ({ kind: "create", type: Pod, object, owner: replicaSet }));
  }
  return byDeletionRank(active)
    .slice(0, Math.min(-missing, burst))
    .map((object) => ({ kind: "delete", type: Pod, object, owner: replicaSet }));
}

/**
 * The status of a ReplicaSet, written where it is another, and when its counts change by time alone. `failure` is what kept
 * its Pods from being made or deleted just now.
 */
export function decideReplicaSetStatus(
  { replicaSet, pods }: ObservedReplicaSet,
  now: number,
  failure?: { readonly reason: "FailedCreate" | "FailedDelete"; readonly message: string },
): Decision {
  const { owned } = claim(replicaSet, workloadSelector(replicaSet.spec.selector), Pod, pods);
  const active = owned.filter(isPodActive);
  const templateLabels = Object.entries(replicaSet.spec.template?.metadata?.labels ?? {});
  const counts = countPods(active, replicaSet.spec.minReadySeconds ?? 0, now);
  const fullyLabeled = active.filter((pod) => templateLabels.every(([key, value]) => pod.metadata.labels?.[key] === value));
  const terminating = owned.filter((pod) => isPodTerminating(pod)).length;
  const before = (replicaSet.status?.conditions ?? []) as readonly WorkloadCondition[];
  const conditions =
    failure === undefined
      ? withoutCondition(before, "ReplicaFailure")
      : withCondition(before, { type: "ReplicaFailure", status: "True", ...failure }, now);
  const status = {
    replicas: active.length,
    ...(fullyLabeled.length > 0 ? { fullyLabeledReplicas: fullyLabeled.length } : {}),
    ...(counts.ready > 0 ? { readyReplicas: counts.ready } : {}),
    ...(counts.available > 0 ? { availableReplicas: counts.available } : {}),
    ...(terminating > 0 ? { terminatingReplicas: terminating } : {}),
    ...(conditions.length > 0 ? { conditions } : {}),
    observedGeneration: replicaSet.metadata.generation ?? 0,
  };
  const requeueAfterMs = counts.nextAvailableAt === undefined ? undefined : counts.nextAvailableAt - now;
  // A Pod that is made now is counted when the watch shows it.
  if (jsonEquals(replicaSet.status, status)) return { writes: [], requeueAfterMs };
  const object = { ...replicaSet, status } as unknown as Seen<ReplicaSetObject>;
  return { writes: [{ kind: "status", type: ReplicaSet, object: object as Seen }], requeueAfterMs };
}
