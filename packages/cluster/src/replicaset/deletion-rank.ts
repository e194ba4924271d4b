import { parseTime } from "@keelson/api-machinery/time";
import { isPodReady, type CachedPod } from "../workload/pod-state.ts";

const phases: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

/**
 * Sorts Pods in the order in which an oversized ReplicaSet deletes them (controller_utils.go `ActivePodsWithRanks`): unassigned,
 * pending and unready Pods first; then by the annotation controller.kubernetes.io/pod-deletion-cost; then Pods on nodes with more
 * replicas; then Pods that became ready later, restarted more often, or are younger.
 */
export function byDeletionRank(pods: readonly CachedPod[]): readonly CachedPod[] {
  const onNode = new Map<string, number>();
  for (const { spec } of pods) {
    if (spec.nodeName) onNode.set(spec.nodeName, (onNode.get(spec.nodeName) ?? 0) + 1);
  }
  const ranked = pods.map((pod) => ({
    pod,
    keys: [
      pod.spec.nodeName ? 1 : 0,
      phases[pod.status?.phase ?? "Pending"] ?? 0,
      isPodReady(pod) ? 1 : 0,
      deletionCost(pod),
      -(onNode.get(pod.spec.nodeName ?? "") ?? 0),
      -(readySince(pod) ?? Number.POSITIVE_INFINITY),
      -restarts(pod),
      -(parseTime(pod.metadata.creationTimestamp ?? "") ?? Number.POSITIVE_INFINITY),
    ],
  }));
  ranked.sort((a, b) => {
    for (const [index, key] of a.keys.entries()) {
      const other = b.keys[index] ?? 0;
      if (key !== other) return key < other ? -1 : 1;
    }
    return (a.pod.metadata.name ?? "") < (b.pod.metadata.name ?? "") ? -1 : 1;
  });
  return ranked.map(({ pod }) => pod);
}

function deletionCost(pod: CachedPod): number {
  const text = pod.metadata.annotations?.["controller.kubernetes.io/pod-deletion-cost"] ?? "";
  return /^-?\d{1,10}$/.test(text) ? Number(text) : 0;
}

function readySince(pod: CachedPod): number | undefined {
  const ready = pod.status?.conditions?.find((condition) => condition.type === "Ready" && condition.status === "True");
  return ready === undefined ? undefined : parseTime(ready.lastTransitionTime ?? "");
}

function restarts(pod: CachedPod): number {
  return Math.max(0, ...(pod.status?.containerStatuses ?? []).map(({ restartCount }) => restartCount));
}
