import { type FailureVerdict, judgeFailure } from "./pod-failure-policy.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import { formatIndexes, parseIndexes } from "./index-set.ts";
import { hasFailed, indexOf, isIndexed, isTracked, type CachedJob } from "./job-pod.ts";

/**
 * Counts the terminated Pods of a Job so that none is counted twice or lost if the controller crashes (KEP-2307):
 *
 * 1. The uid of a terminated Pod with the finalizer is written to `uncountedTerminatedPods`.
 * 2. Once that is stored, the finalizer is removed.
 * 3. Once that is observed (or the Pod is deleted), one write moves the uid from the list into the count.
 */
export interface Accounts {
  readonly succeeded: number;
  readonly failed: number;
  readonly completed: ReadonlySet<number>;
  readonly uncounted: { readonly succeeded: readonly string[]; readonly failed: readonly string[] };
  /** Pods whose finalizer may be removed, because their uid is stored. */
  readonly releasable: readonly CachedPod[];
  /** Whether every terminated Pod is in the counts. */
  readonly isSettled: boolean;
  /** The verdict of a Pod that fails the whole Job. */
  readonly verdict: Extract<FailureVerdict, { readonly kind: "fail-job" }> | undefined;
}

/** Updates the counts of a Job's status from its Pods. */
export function account(job: CachedJob, pods: readonly CachedPod[]): Accounts {
  const before = job.status?.uncountedTerminatedPods ?? {};
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid ?? "", pod]));
  const isWaiting = (uid: string): boolean => {
    const pod = byUid.get(uid);
    return pod !== undefined && isTracked(pod);
  };
  const uncounted = {
    succeeded: (before.succeeded ?? []).filter(isWaiting),
    failed: (before.failed ?? []).filter(isWaiting),
  };
  let succeeded = (job.status?.succeeded ?? 0) + (before.succeeded ?? []).length - uncounted.succeeded.length;
  const failed = (job.status?.failed ?? 0) + (before.failed ?? []).length - uncounted.failed.length;
  const completions = job.spec.completions ?? 0;
  const stored = parseIndexes(job.status?.completedIndexes, completions);
  const completed = new Set(stored);
  const listed = new Set([...uncounted.succeeded, ...uncounted.failed]);
  const releasable: CachedPod[] = [];
  let verdict: Accounts["verdict"];
  let ended = 0;
  for (const pod of pods) {
    if (!isTracked(pod)) continue;
    const uid = pod.metadata.uid ?? "";
    if (listed.has(uid)) {
      releasable.push(pod);
    } else if (pod.status?.phase === "Succeeded") {
      const index = indexOf(job, pod);
      if (!isIndexed(job)) uncounted.succeeded.push(uid);
      // An index counts once, whichever of its Pods succeeded first; the list of indexes is the count.
      else if (index === undefined || stored.has(index)) releasable.push(pod);
      else completed.add(index);
      ended++;
    } else if (hasFailed(job, pod)) {
      const judged = judgeFailure(job, pod);
      if (judged.kind === "fail-job") verdict ??= judged;
      if (judged.kind === "ignore") releasable.push(pod);
      else uncounted.failed.push(uid);
      ended++;
    }
  }
  if (isIndexed(job)) succeeded = completed.size;
  return {
    succeeded,
    failed,
    completed,
    uncounted,
    releasable,
    isSettled: ended === 0 && uncounted.succeeded.length === 0 && uncounted.failed.length === 0,
    verdict,
  };
}

/** The counts as fields of the Job's status. */
export function accountsStatus(job: CachedJob, { succeeded, failed, completed, uncounted }: Accounts): Record<string, unknown> {
  return {
    ...(succeeded > 0 ? { succeeded } : {}),
    ...(failed > 0 ? { failed } : {}),
    ...(isIndexed(job) && completed.size > 0 ? { completedIndexes: formatIndexes(completed) } : {}),
    uncountedTerminatedPods: {
      ...(uncounted.succeeded.length > 0 ? { succeeded: uncounted.succeeded } : {}),
      ...(uncounted.failed.length > 0 ? { failed: uncounted.failed } : {}),
    },
  };
}
