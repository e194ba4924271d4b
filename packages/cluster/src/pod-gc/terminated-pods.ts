import type { CachedPod } from "../workload/pod-state.ts";

/** Default number of terminated Pods that are kept, as of kube-controller-manager. */
export const defaultTerminatedPodThreshold = 12_500;

/** Order in which terminated Pods are deleted: evicted ones first, then the oldest, then by name. As in kube-controller-manager. */
function compare(a: CachedPod, b: CachedPod): number {
  const evicted = Number(isEvicted(b)) - Number(isEvicted(a));
  if (evicted !== 0) return evicted;
  // Timestamps of one format, so that their order is that of their texts.
  return compareTexts(createdAt(a), createdAt(b)) || compareTexts(a.metadata.name ?? "", b.metadata.name ?? "");
}

const isEvicted = ({ status }: CachedPod): boolean => status?.phase === "Failed" && status.reason === "Evicted";
const createdAt = ({ metadata }: CachedPod): string => metadata.creationTimestamp ?? "";
const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * The first of the terminated Pods beyond `threshold`, at most `max`, in the order in which they are to be deleted. A threshold of 0 or
 * less keeps all. Takes one pass over the Pods.
 */
export function surplusPods(terminated: readonly CachedPod[], threshold: number, max: number): readonly CachedPod[] {
  const count = threshold <= 0 ? 0 : Math.min(terminated.length - threshold, max);
  const first: CachedPod[] = [];
  if (count <= 0) return first;
  for (const pod of terminated) {
    const last = first.at(-1);
    if (first.length === count && last !== undefined && compare(pod, last) >= 0) continue;
    const at = first.findIndex((each) => compare(pod, each) < 0);
    first.splice(at < 0 ? first.length : at, 0, pod);
    if (first.length > count) first.pop();
  }
  return first;
}
