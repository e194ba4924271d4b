import { jobBackoffMs } from "./job-backoff.ts";
import type { CachedPod } from "../workload/pod-state.ts";
import { parseIndexes } from "./index-set.ts";
import { finishedAt, hasFailed, indexOf, isIndexed, type CachedJob } from "./job-pod.ts";
import { judgeFailure } from "./pod-failure-policy.ts";

/** Annotation of a Pod: how often Pods of its index had failed before (KEP-3850). */
export const failureCountAnnotation = "batch.kubernetes.io/job-index-failure-count";
/** Annotation of a Pod: how many more failures its Job's failure policy ignored. */
export const ignoredCountAnnotation = "batch.kubernetes.io/job-index-ignored-failure-count";

/** The failures of one index. */
export interface IndexFailures {
  /** Failures that count against `backoffLimitPerIndex`. */
  readonly counted: number;
  readonly ignored: number;
  /** When the next Pod of the index may be created. */
  readonly retryAt: number;
}

const noFailures: IndexFailures = { counted: 0, ignored: 0, retryAt: 0 };

/** Whether the Job limits failures per index. */
export function hasLimitPerIndex(job: CachedJob): boolean {
  return isIndexed(job) && job.spec.backoffLimitPerIndex !== undefined;
}

/** The failures of each index, derived from its Pods. */
export function failuresByIndex(job: CachedJob, pods: readonly CachedPod[]): ReadonlyMap<number, IndexFailures> {
  const failures = new Map<number, IndexFailures>();
  for (const pod of pods) {
    const index = indexOf(job, pod);
    if (index === undefined || !hasFailed(job, pod)) continue;
    const isIgnored = judgeFailure(job, pod).kind === "ignore";
    const counted = countAt(pod, failureCountAnnotation) + (isIgnored ? 0 : 1);
    const ignored = countAt(pod, ignoredCountAnnotation) + (isIgnored ? 1 : 0);
    const known = failures.get(index) ?? noFailures;
    if (counted + ignored <= known.counted + known.ignored) continue;
    failures.set(index, { counted, ignored, retryAt: finishedAt(pod) + jobBackoffMs(counted + ignored) });
  }
  return failures;
}

/** The indexes that failed permanently: stored ones, those beyond `backoffLimitPerIndex`, and those failed by the failure policy. */
export function failedIndexesOf(job: CachedJob, pods: readonly CachedPod[]): ReadonlySet<number> {
  const failed = new Set(parseIndexes(job.status?.failedIndexes, job.spec.completions ?? 0));
  if (!hasLimitPerIndex(job)) return failed;
  const limit = job.spec.backoffLimitPerIndex ?? 0;
  for (const [index, { counted }] of failuresByIndex(job, pods)) if (counted > limit) failed.add(index);
  for (const pod of pods) {
    const index = indexOf(job, pod);
    if (index !== undefined && hasFailed(job, pod) && judgeFailure(job, pod).kind === "fail-index") failed.add(index);
  }
  return failed;
}

/**
 * Failed Pods whose failure count the next Pod of their index continues. They keep their finalizer until that Pod exists, because a
 * deletion in between would forget the count.
 */
export function pendingCounts(
  job: CachedJob,
  pods: readonly CachedPod[],
  done: (index: number) => boolean,
): ReadonlySet<CachedPod> {
  if (!hasLimitPerIndex(job)) return new Set();
  const total = (pod: CachedPod): number => countAt(pod, failureCountAnnotation) + countAt(pod, ignoredCountAnnotation);
  const newest = new Map<number, CachedPod>();
  for (const pod of pods) {
    const index = indexOf(job, pod);
    if (index === undefined || done(index)) continue;
    const known = newest.get(index);
    if (known === undefined || total(pod) > total(known)) newest.set(index, pod);
  }
  return new Set([...newest.values()].filter((pod) => hasFailed(job, pod)));
}

/** The index of the first rule of the success policy that is met (KEP-3998); undefined if there is none. */
export function metSuccessRule(job: CachedJob, succeeded: ReadonlySet<number>): number | undefined {
  const { successPolicy, completions = 0 } = job.spec;
  if (successPolicy === undefined || !isIndexed(job)) return undefined;
  const at = successPolicy.rules.findIndex(({ succeededIndexes, succeededCount }) => {
    const wanted = succeededIndexes === undefined ? undefined : parseIndexes(succeededIndexes, completions);
    const matching = wanted === undefined ? succeeded.size : [...wanted].filter((index) => succeeded.has(index)).length;
    return matching >= (succeededCount ?? wanted?.size ?? Number.POSITIVE_INFINITY);
  });
  return at < 0 ? undefined : at;
}

function countAt({ metadata }: CachedPod, annotation: string): number {
  const text = metadata.annotations?.[annotation] ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : 0;
}
