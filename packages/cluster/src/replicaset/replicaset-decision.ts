import { jsonEquals } from "@keelson/api-machinery";
import { Pod, ReplicaSet, type ReplicaSetObject } from "@keelson/api-machinery/kinds";
import { claim, workloadSelector } from "../workload/ownership.ts";
import { podFromTemplate } from "../workload/pod-from-template.ts";
import { countPods, isPodActive, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import { type WorkloadCondition, withCondition, withoutCondition } from "../workload/workload-conditions.ts";
import type { Decision, Cached, Write } from "../workload/write.ts";
import { byDeletionRank } from "./deletion-rank.ts";

/** Limits Pods created or deleted in one reconcile, so that errors show before more follow. */
const maxBurst = 500;

/** The input of {@link decideReplicaSetPods}. */
export interface ObservedReplicaSet {
  readonly replicaSet: Cached<ReplicaSetObject>;
  /** Pods of the namespace that this ReplicaSet or no controller owns. */
  readonly pods: readonly CachedPod[];
}

/** Decides which Pods to create, delete, adopt or release. Ownership changes are returned alone. */
export function decideReplicaSetPods({ replicaSet, pods }: ObservedReplicaSet): readonly Write[] {
  const claims = claim(replicaSet, workloadSelector(replicaSet.spec.selector), Pod, pods);
  if (claims.writes.length > 0) return claims.writes;
  if (replicaSet.metadata.deletionTimestamp !== undefined) return [];
  const active = claims.owned.filter(isPodActive);
  const missing = (replicaSet.spec.replicas ?? 1) - active.length;
  if (missing > 0) {
    const object = podFromTemplate(replicaSet, replicaSet.spec.template);
    return Array.from({ length: Math.min(missing, maxBurst) }, () => ({
      kind: "create",
      type: Pod,
      object,
      owner: replicaSet,
    }));
  }
  return byDeletionRank(active)
    .slice(0, Math.min(-missing, maxBurst))
    .map((object) => ({ kind: "delete", type: Pod, object, owner: replicaSet }));
}

/**
 * Computes the status of a ReplicaSet, writes it if it differs, and returns when counts change by time alone. `failure` is the error
 * that kept the last reconcile from creating or deleting Pods.
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
  // A Pod created now is counted when the watch shows it.
  if (jsonEquals(replicaSet.status, status)) return { writes: [], requeueAfterMs };
  const object = { ...replicaSet, status } as unknown as Cached<ReplicaSetObject>;
  return { writes: [{ kind: "status", type: ReplicaSet, object: object }], requeueAfterMs };
}
