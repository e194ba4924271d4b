import type { SeenPod } from "../workload/pod-state.ts";
import { finishedAt, hasFailed, isTracked, type SeenJob } from "./job-pod.ts";

const firstBackoffMs = 10_000;
const longestBackoffMs = 600_000;

/**
 * When the Job may make the next Pod: 10 s after a failure, twice as long after each further one without a success between,
 * up to 10 min. Told by the Pods themselves, so that it holds over a restart. 0: at once.
 */
export function nextPodAt(job: SeenJob, pods: readonly SeenPod[]): number {
  const lastSuccess = Math.max(0, ...pods.filter(({ status }) => status?.phase === "Succeeded").map(finishedAt));
  const failures = pods
    .filter((pod) => pod.status?.phase === "Failed" || (isTracked(pod) && hasFailed(job, pod)))
    .map(finishedAt)
    .filter((at) => at > lastSuccess);
  if (failures.length === 0) return 0;
  const backoffMs = Math.min(firstBackoffMs * 2 ** Math.min(failures.length - 1, 16), longestBackoffMs);
  return Math.max(...failures) + backoffMs;
}

/** Restarts of the containers of Pods that restart by themselves: they count against the limit too. */
export function restartsOf(pods: readonly SeenPod[]): number {
  return pods
    .flatMap(({ status }) => [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])
    .reduce((sum, { restartCount }) => sum + restartCount, 0);
}
