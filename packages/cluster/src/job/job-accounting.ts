import { type FailureVerdict, judgeFailure } from "./pod-failure-policy.ts";
import type { SeenPod } from "../workload/pod-state.ts";
import { formatIndexes, parseIndexes } from "./index-set.ts";
import { hasFailed, indexOf, isIndexed, isTracked, type SeenJob } from "./job-pod.ts";

/**
 * How many Pods of a Job have ended, counted so that none is counted twice or lost wherever the controller dies (KEP-2307):
 *
 * 1. A Pod that has ended and carries the finalizer gets its uid written to `uncountedTerminatedPods`.
 * 2. When that is stored, its finalizer is removed.
 * 3. When that is seen (or the Pod is gone), the uid goes from the list into the count, in one write.
 */
export interface Accounts {
  readonly succeeded: number;
  readonly failed: number;
  readonly completed: ReadonlySet<number>;
  readonly uncounted: { readonly succeeded: readonly string[]; readonly failed: readonly string[] };
  /** Pods whose finalizer may go: that they have ended is stored. */
  readonly releasable: readonly SeenPod[];
  /** Whether everything that has ended is in the counts. */
  readonly isSettled: boolean;
  /** A Pod whose failure fails the Job. */
  readonly verdict: Extract<FailureVerdict, { readonly kind: "fail-job" }> | undefined;
}

/** Brings the counts of a Job's status up to date with its Pods. */
export function account(job: SeenJob, pods: readonly SeenPod[]): Accounts {
  const before = job.status?.uncountedTerminatedPods ?? {};
  const byUid = new Map(pods.map((pod) => [pod.metadata.uid ?? "", pod]));
  const waits = (uid: string): boolean => {
    const pod = byUid.get(uid);
    return pod !== undefined && isTracked(pod);
  };
  const uncounted = {
    succeeded: (before.succeeded ?? []).filter(waits),
    failed: (before.failed ?? []).filter(waits),
  };
  let succeeded = (job.status?.succeeded ?? 0) + (before.succeeded ?? []).length - uncounted.succeeded.length;
  const failed = (job.status?.failed ?? 0) + (before.failed ?? []).length - uncounted.failed.length;
  const completions = job.spec.completions ?? 0;
  const stored = parseIndexes(job.status?.completedIndexes, completions);
  const completed = new Set(stored);
  const listed = new Set([...uncounted.succeeded, ...uncounted.failed]);
  const releasable: SeenPod[] = [];
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
      // An index is counted once, whichever of its Pods was first; then the list of indexes is the count.
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

/** The part of a status that tells the counts. */
export function accountsStatus(job: SeenJob, { succeeded, failed, completed, uncounted }: Accounts): Record<string, unknown> {
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
