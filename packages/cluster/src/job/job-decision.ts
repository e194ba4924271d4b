import { jsonEquals } from "@keelson/api-machinery";
import { Job, Pod } from "@keelson/api-machinery/kinds";
import { formatTime, parseTime } from "@keelson/api-machinery/time";
import { byDeletionRank } from "../replicaset/deletion-rank.ts";
import { isPodActive, isPodReady, isPodTerminal, isPodTerminating, type CachedPod } from "../workload/pod-state.ts";
import type { WorkloadCondition } from "../workload/workload-conditions.ts";
import { eventWrite, type Decision, type Cached, earlier, type Write } from "../workload/write.ts";
import { account, type Accounts, accountsStatus } from "./job-accounting.ts";
import { nextPodAt, restartsOf } from "./job-backoff.ts";
import { indexOf, isIndexed, isTracked, onlyReplacesEnded, podOf, type CachedJob, trackingFinalizer } from "./job-pod.ts";

/** The input of {@link decideJob}. */
export interface ObservedJob {
  readonly job: CachedJob;
  /** The Pods that the Job controls. */
  readonly pods: readonly CachedPod[];
}

/** Limits Pods created or deleted in one reconcile. */
const maxBurst = 500;

/** The terminal state that a Job heads for. */
interface Ending {
  readonly type: "Complete" | "Failed";
  readonly reason: string;
  readonly message: string;
}

/** Decides the next step of a Job: accounting, Pods to create and delete, and its status. */
export function decideJob({ job, pods }: ObservedJob, now: number): Decision {
  // Nothing keeps counting for a Job that is being deleted, so its Pods must not wait for it.
  if (job.metadata.deletionTimestamp !== undefined) return { writes: pods.filter(isTracked).map(release) };
  const finished = conditionsOf(job).find(({ type, status }) => isEnd(type) && status === "True");
  if (finished !== undefined) return decideFinished(job, pods, finished, now);
  return decideRunning(job, pods, now);
}

/** Releases the Pods of a deleted Job, which will not be counted. */
export function decideOrphanedPods(pods: readonly CachedPod[]): readonly Write[] {
  return pods.filter(isTracked).map(release);
}

function decideFinished(job: CachedJob, pods: readonly CachedPod[], end: WorkloadCondition, now: number): Decision {
  const writes = pods.filter(isTracked).map(release);
  const ttl = job.spec.ttlSecondsAfterFinished;
  const since = parseTime(end.lastTransitionTime ?? "");
  if (ttl === undefined || since === undefined) return { writes };
  const left = since + ttl * 1_000 - now;
  // Background deletion removes the Pods with the Job. If the clock was set back, the TTL starts again.
  return left > 0 ? { writes, requeueAfterMs: left } : { writes: [...writes, { kind: "delete", type: Job, object: job }] };
}

function decideRunning(job: CachedJob, pods: readonly CachedPod[], now: number): Decision {
  const accounts = account(job, pods);
  const active = pods.filter((pod) => isPodActive(pod));
  const terminating = pods.filter((pod) => isPodTerminating(pod) && !isPodTerminal(pod));
  const isSuspended = job.spec.suspend === true;
  const startTime = isSuspended ? undefined : startOf(job, now);
  const ending = endingOf(job, accounts, pods, active.length, startTime, now);
  const plan = planPods(job, pods, active, accounts, ending, now);
  let conditions = conditionsOf(job);
  const events: Write[] = [];
  if (ending === undefined) {
    const suspension = suspend(job, conditions, now);
    conditions = suspension.conditions;
    events.push(...suspension.events);
  } else {
    conditions = withEnding(conditions, ending, now, accounts.isSettled && active.length === 0 && terminating.length === 0);
  }
  const isOver = conditions.some(({ type, status }) => isEnd(type) && status === "True");
  if (isOver && ending !== undefined) {
    events.push(
      ending.type === "Complete"
        ? eventWrite(job, "Normal", "Completed", "Job completed")
        : eventWrite(job, "Warning", ending.reason, ending.message),
    );
  }
  // Count the Pods as they will be after these writes, so that the status does not lag one step behind.
  const remaining = active.length + plan.created - plan.deleted;
  const ready = active.filter((pod) => isPodReady(pod)).length;
  const status = {
    ...(conditions.length > 0 ? { conditions } : {}),
    ...(startTime === undefined ? {} : { startTime }),
    ...(isOver && ending?.type === "Complete" ? { completionTime: formatTime(now) } : {}),
    ...(remaining > 0 ? { active: remaining } : {}),
    ready: Math.min(ready, remaining),
    terminating: terminating.length + plan.deleted,
    ...accountsStatus(job, accounts),
  };
  if (isOver) status.terminating = 0;
  const dismissed = new Set(plan.writes.flatMap((write) => (write.kind === "patch" ? [write.object.metadata.uid] : [])));
  const releases = accounts.releasable.filter(({ metadata }) => !dismissed.has(metadata.uid)).map(release);
  const isChanged = !jsonEquals(job.status, status);
  const statusWrite: readonly Write[] = isChanged ? [{ kind: "status", type: Job, object: { ...job, status } as Cached }] : [];
  const deadline = job.spec.activeDeadlineSeconds;
  const started = parseTime(startTime ?? "");
  const deadlineMs = deadline === undefined || started === undefined || ending ? undefined : started + deadline * 1_000 - now;
  return {
    writes: [...plan.writes, ...releases, ...statusWrite, ...(isChanged ? events : [])],
    requeueAfterMs: earlier(plan.requeueAfterMs, deadlineMs),
  };
}

/** A resumed Job gets a new start time, and with it a new deadline. */
function startOf(job: CachedJob, now: number): string {
  return job.status?.startTime ?? formatTime(now);
}

function endingOf(
  job: CachedJob,
  accounts: Accounts,
  pods: readonly CachedPod[],
  active: number,
  startTime: string | undefined,
  now: number,
): Ending | undefined {
  // An earlier decision holds while the last Pods terminate.
  const conditions = conditionsOf(job);
  const target = conditions.find(({ type, status }) => type === "FailureTarget" && status === "True");
  if (target !== undefined) return { type: "Failed", reason: target.reason ?? "", message: target.message ?? "" };
  const met = conditions.find(({ type, status }) => type === "SuccessCriteriaMet" && status === "True");
  if (met !== undefined) return { type: "Complete", reason: met.reason ?? "", message: met.message ?? "" };
  const failed = (reason: string, message: string): Ending => ({ type: "Failed", reason, message });
  if (accounts.verdict !== undefined) return failed("PodFailurePolicy", accounts.verdict.message);
  const limit = job.spec.backoffLimit ?? 6;
  const failures = accounts.failed + accounts.uncounted.failed.length;
  const restarts = job.spec.template.spec.restartPolicy === "OnFailure" ? restartsOf(pods.filter(isPodActive)) : 0;
  if (failures > limit || (restarts > 0 && restarts >= limit)) {
    return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
  }
  const deadline = job.spec.activeDeadlineSeconds;
  const started = parseTime(startTime ?? "");
  if (deadline !== undefined && started !== undefined && now - started >= deadline * 1_000) {
    return failed("DeadlineExceeded", "Job was active longer than specified deadline");
  }
  const succeeded = accounts.succeeded + accounts.uncounted.succeeded.length;
  const { completions } = job.spec;
  const isComplete = completions === undefined ? succeeded > 0 && active === 0 : succeeded >= completions;
  if (!isComplete || job.spec.suspend) return undefined;
  return { type: "Complete", reason: "CompletionsReached", message: "Reached expected number of succeeded pods" };
}

interface PodPlan {
  readonly writes: readonly Write[];
  readonly created: number;
  readonly deleted: number;
  readonly requeueAfterMs?: number;
}

function planPods(
  job: CachedJob,
  pods: readonly CachedPod[],
  active: readonly CachedPod[],
  accounts: Accounts,
  ending: Ending | undefined,
  now: number,
): PodPlan {
  // Pods stopped by the Job's end count as failed; surplus and suspended Pods do not count.
  if (ending !== undefined) return remove(job, active);
  if (job.spec.suspend) return dismiss(job, active);
  const { completions, parallelism = 1 } = job.spec;
  const succeeded = accounts.succeeded + accounts.uncounted.succeeded.length;
  const open = completions === undefined ? (succeeded > 0 ? active.length : parallelism) : completions - succeeded;
  const wanted = Math.max(Math.min(open, parallelism), 0);
  const surplus = isIndexed(job)
    ? surplusOf(job, active, accounts, wanted)
    : byDeletionRank(active).slice(0, Math.max(active.length - wanted, 0));
  if (surplus.length > 0) return dismiss(job, surplus.slice(0, maxBurst));
  // With `podReplacementPolicy: Failed`, a terminating Pod is not replaced yet.
  const leaving = onlyReplacesEnded(job) ? pods.filter((pod) => isPodTerminating(pod) && !isPodTerminal(pod)) : [];
  const missing = Math.min(wanted - active.length - leaving.length, maxBurst);
  if (missing <= 0) return { writes: [], created: 0, deleted: 0 };
  const at = nextPodAt(job, pods);
  if (at > now) return { writes: [], created: 0, deleted: 0, requeueAfterMs: at - now };
  const indexes = isIndexed(job)
    ? freeIndexes(job, [...active, ...leaving], accounts, missing)
    : Array.from({ length: missing }, () => undefined);
  const writes = indexes.map((index): Write => ({ kind: "create", type: Pod, object: podOf(job, index), owner: job }));
  return { writes, created: writes.length, deleted: 0 };
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

function freeIndexes(job: CachedJob, taken: readonly CachedPod[], { completed }: Accounts, count: number): readonly number[] {
  const used = new Set(taken.map((pod) => indexOf(job, pod)));
  const free: number[] = [];
  for (let index = 0; index < (job.spec.completions ?? 0) && free.length < count; index++) {
    if (!completed.has(index) && !used.has(index)) free.push(index);
  }
  return free;
}

/** Records the intermediate condition first, and the terminal one when the last Pod has terminated (KEP-3998). */
function withEnding(
  conditions: readonly WorkloadCondition[],
  { type, reason, message }: Ending,
  now: number,
  isOver: boolean,
): readonly WorkloadCondition[] {
  const target = type === "Complete" ? "SuccessCriteriaMet" : "FailureTarget";
  const decided = conditions.some((one) => one.type === target)
    ? conditions
    : [...conditions, conditionOf(target, "True", reason, message, now)];
  return isOver ? [...decided, conditionOf(type, "True", reason, message, now)] : decided;
}

function suspend(
  job: CachedJob,
  conditions: readonly WorkloadCondition[],
  now: number,
): { readonly conditions: readonly WorkloadCondition[]; readonly events: readonly Write[] } {
  const before = conditions.find(({ type }) => type === "Suspended");
  const others = conditions.filter(({ type }) => type !== "Suspended");
  if (job.spec.suspend) {
    if (before?.status === "True") return { conditions, events: [] };
    return {
      conditions: [...others, conditionOf("Suspended", "True", "JobSuspended", "Job suspended", now)],
      events: [eventWrite(job, "Normal", "Suspended", "Job suspended")],
    };
  }
  if (before?.status !== "True") return { conditions, events: [] };
  return {
    conditions: [...others, conditionOf("Suspended", "False", "JobResumed", "Job resumed", now)],
    events: [eventWrite(job, "Normal", "Resumed", "Job resumed")],
  };
}

function conditionOf(type: string, status: string, reason: string, message: string, now: number): WorkloadCondition {
  const time = formatTime(now);
  return { type, status, lastProbeTime: time, lastTransitionTime: time, reason, message };
}

function conditionsOf({ status }: CachedJob): readonly WorkloadCondition[] {
  return (status?.conditions ?? []) as readonly WorkloadCondition[];
}

function isEnd(type: string): boolean {
  return type === "Complete" || type === "Failed";
}

function release(object: CachedPod): Write {
  const finalizers = (object.metadata.finalizers ?? []).filter((finalizer) => finalizer !== trackingFinalizer);
  return { kind: "patch", type: Pod, object, body: { metadata: { finalizers } } };
}
