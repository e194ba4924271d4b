import { parseTime } from "@keelson/api-machinery/time";
import { isPodReady, type SeenPod } from "../workload/pod-state.ts";

const phases: Readonly<Record<string, number>> = { Pending: 0, Unknown: 1, Running: 2 };

/**
 * The Pods in the order in which a ReplicaSet that is too large deletes them: first those whose loss costs least. Not yet on a
 * node, then pending, then not ready; then by the annotation controller.kubernetes.io/pod-deletion-cost; then those on nodes
 * with more Pods of the same; then those ready for a shorter time, restarted more often, or younger.
 */
export function byDeletionRank(pods: readonly SeenPod[]): readonly SeenPod[] {
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

function deletionCost(pod: SeenPod): number {
  const text = pod.metadata.annotations?.["controller.kubernetes.io/pod-deletion-cost"] ?? "";
  return /^-?\d{1,10}$/.test(text) ? Number(text) : 0;
}

function readySince(pod: SeenPod): number | undefined {
  const ready = pod.status?.conditions?.find((condition) => condition.type === "Ready" && condition.status === "True");
  return ready === undefined ? undefined : parseTime(ready.lastTransitionTime ?? "");
}

function restarts(pod: SeenPod): number {
  return Math.max(0, ...(pod.status?.containerStatuses ?? []).map(({ restartCount }) => restartCount));
}
