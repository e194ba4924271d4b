import { Pod } from "@keelson/api-machinery/kinds";
import { byDeletionRank } from "../replicaset/deletion-rank.ts";
import { isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { Write } from "../workload/write.ts";
import type { Accounts } from "./job-accounting.ts";
import { nextPodAt } from "./job-backoff.ts";
import { failureCountAnnotation, failuresByIndex, hasLimitPerIndex, ignoredCountAnnotation } from "./job-indexes.ts";
import { indexOf, isIndexed, isTracked, onlyReplacesEnded, podOf, release, type CachedJob } from "./job-pod.ts";

/** Limits Pods created or deleted in one reconcile. */
const maxBurst = 500;

/** The Pods to create and delete. */
export interface PodPlan {
  readonly writes: readonly Write[];
  readonly created: number;
  readonly deleted: number;
  readonly requeueAfterMs?: number;
}

/** Decides which Pods a Job needs. `isEnding`: the Job succeeds or fails, and its remaining Pods are deleted. */
export function planPods(
  job: CachedJob,
  pods: readonly CachedPod[],
  active: readonly CachedPod[],
  accounts: Accounts,
  failedIndexes: ReadonlySet<number>,
  isEnding: boolean,
  now: number,
): PodPlan {
  // Pods stopped by the Job's end count as failed; surplus and suspended Pods do not count.
  if (isEnding) return remove(job, active);
  if (job.spec.suspend) return dismiss(job, active);
  const { completions, parallelism = 1 } = job.spec;
  const succeeded = accounts.succeeded + accounts.uncounted.succeeded.length;
  const open =
    completions === undefined ? (succeeded > 0 ? active.length : parallelism) : completions - succeeded - failedIndexes.size;
  const wanted = Math.max(Math.min(open, parallelism), 0);
  const surplus = isIndexed(job)
    ? surplusOf(job, active, accounts, wanted)
    : byDeletionRank(active).slice(0, Math.max(active.length - wanted, 0));
  if (surplus.length > 0) return dismiss(job, surplus.slice(0, maxBurst));
  // With `podReplacementPolicy: Failed`, a terminating Pod is not replaced yet.
  const leaving = onlyReplacesEnded(job) ? pods.filter((pod) => isPodTerminating(pod) && !isPodTerminal(pod)) : [];
  const missing = Math.min(wanted - active.length - leaving.length, maxBurst);
  if (missing <= 0) return { writes: [], created: 0, deleted: 0 };
  if (hasLimitPerIndex(job)) return planByIndex(job, pods, [...active, ...leaving], accounts, failedIndexes, missing, now);
  const at = nextPodAt(job, pods);
  if (at > now) return { writes: [], created: 0, deleted: 0, requeueAfterMs: at - now };
  const indexes = isIndexed(job)
    ? freeIndexes(job, [...active, ...leaving], accounts, missing)
    : Array.from({ length: missing }, () => undefined);
  const writes = indexes.map((index): Write => ({ kind: "create", type: Pod, object: podOf(job, index), owner: job }));
  return { writes, created: writes.length, deleted: 0 };
}

/** Creates Pods of free indexes whose own backoff has passed. */
function planByIndex(
  job: CachedJob,
  pods: readonly CachedPod[],
  taken: readonly CachedPod[],
  accounts: Accounts,
  failedIndexes: ReadonlySet<number>,
  missing: number,
  now: number,
): PodPlan {
  const failures = failuresByIndex(job, pods);
  const completed = new Set([...accounts.completed, ...failedIndexes]);
  const free = freeIndexes(job, taken, { completed }, Number.POSITIVE_INFINITY);
  const due = free.filter((index) => (failures.get(index)?.retryAt ?? 0) <= now).slice(0, missing);
  const writes = due.map((index): Write => {
    const { counted = 0, ignored = 0 } = failures.get(index) ?? {};
    const annotations = {
      [failureCountAnnotation]: String(counted),
      ...(ignored > 0 ? { [ignoredCountAnnotation]: String(ignored) } : {}),
    };
    return { kind: "create", type: Pod, object: podOf(job, index, annotations), owner: job };
  });
  const later = free.map((index) => (failures.get(index)?.retryAt ?? 0) - now).filter((delayMs) => delayMs > 0);
  return {
    writes,
    created: writes.length,
    deleted: 0,
    ...(later.length > 0 ? { requeueAfterMs: Math.min(...later) } : {}),
  };
}

function remove(job: CachedJob, pods: readonly CachedPod[]): PodPlan {
  const writes = pods.map((object): Write => ({ kind: "delete", type: Pod, object, owner: job }));
  return { writes, created: 0, deleted: pods.length };
}

function dismiss(job: CachedJob, pods: readonly CachedPod[]): PodPlan {
  const { writes, created, deleted } = remove(job, pods);
  return { writes: [...pods.filter(isTracked).map(release), ...writes], created, deleted };
}

/** Surplus Pods of an Indexed Job: those of completed indexes, duplicates, then the highest indexes. */
function surplusOf(
  job: CachedJob,
  active: readonly CachedPod[],
  { completed }: Accounts,
  wanted: number,
): readonly CachedPod[] {
  const seen = new Set<number>();
  const kept: CachedPod[] = [];
  const surplus: CachedPod[] = [];
  for (const pod of byDeletionRank(active).toReversed()) {
    const index = indexOf(job, pod);
    if (index === undefined || completed.has(index) || seen.has(index)) {
      surplus.push(pod);
    } else {
      seen.add(index);
      kept.push(pod);
    }
  }
  const byIndex = kept.toSorted((a, b) => (indexOf(job, b) ?? 0) - (indexOf(job, a) ?? 0));
  return [...surplus, ...byIndex.slice(0, Math.max(kept.length - wanted, 0))];
}

function freeIndexes(
  job: CachedJob,
  taken: readonly CachedPod[],
  { completed }: Pick<Accounts, "completed">,
  count: number,
): readonly number[] {
  const used = new Set(taken.map((pod) => indexOf(job, pod)));
  const free: number[] = [];
  for (let index = 0; index < (job.spec.completions ?? 0) && free.length < count; index++) {
    if (!completed.has(index) && !used.has(index)) free.push(index);
  }
  return free;
}
