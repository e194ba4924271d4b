import type { CachedPod } from "../workload/pod-state.ts";
import { finishedAt, hasFailed, isTracked, type CachedJob } from "./job-pod.ts";

const firstBackoffMs = 10_000;
const maxBackoffMs = 600_000;

/**
 * When the Job may create its next Pod: 10 s after a failure, doubled for each further failure without a success in between, up to
 * 10 min. Derived from the Pods, so that it survives a restart. 0 means immediately.
 */
export function nextPodAt(job: CachedJob, pods: readonly CachedPod[]): number {
  const lastSuccess = Math.max(0, ...pods.filter(({ status }) => status?.phase === "Succeeded").map(finishedAt));
  const failures = pods
    .filter((pod) => pod.status?.phase === "Failed" || (isTracked(pod) && hasFailed(job, pod)))
    .map(finishedAt)
    .filter((at) => at > lastSuccess);
  if (failures.length === 0) return 0;
  return Math.max(...failures) + jobBackoffMs(failures.length);
}

/** The delay after this many consecutive failures: 10 s, doubled up to 10 min. */
export function jobBackoffMs(failures: number): number {
  return failures <= 0 ? 0 : Math.min(firstBackoffMs * 2 ** Math.min(failures - 1, 16), maxBackoffMs);
}

/** The restarts of containers within Pods, which count against the limit as well. */
export function restartsOf(pods: readonly CachedPod[]): number {
  return pods
    .flatMap(({ status }) => [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])])
    .reduce((sum, { restartCount }) => sum + restartCount, 0);
}
