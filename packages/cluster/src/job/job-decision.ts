import { jsonEquals } from "@keelson/api-machinery";
import { Job } from "@keelson/api-machinery/kinds";
import { formatTime, parseTime } from "@keelson/api-machinery/time";
import { type CachedPod, isPodActive, isPodReady, isPodTerminal, isPodTerminating } from "../workload/pod-state.ts";
import type { WorkloadCondition } from "../workload/workload-conditions.ts";
import { type Cached, type Decision, earlier, eventWrite, type Write } from "../workload/write.ts";
import { formatIndexes } from "./index-set.ts";
import { account, type Accounts, accountsStatus } from "./job-accounting.ts";
import { restartsOf } from "./job-backoff.ts";
import { failedIndexesOf, hasLimitPerIndex, metSuccessRule, pendingCounts } from "./job-indexes.ts";
import { planPods } from "./job-plan.ts";
import { type CachedJob, isTracked, release } from "./job-pod.ts";

/** The input of {@link decideJob}. */
export interface ObservedJob {
  readonly job: CachedJob;
  /** The Pods that the Job controls. */
  readonly pods: readonly CachedPod[];
}

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
  const finished = finishedCondition(job);
  if (finished !== undefined) return decideFinished(job, pods, finished, now);
  return decideRunning(job, pods, now);
}

/** Whether a Job is complete or has failed. */
export function isFinished(job: CachedJob): boolean {
  return finishedCondition(job) !== undefined;
}

function finishedCondition(job: CachedJob): WorkloadCondition | undefined {
  return conditionsOf(job).find(({ type, status }) => isEnd(type) && status === "True");
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
  const failedIndexes = failedIndexesOf(job, pods);
  const ending = endingOf(job, accounts, failedIndexes, pods, active.length, startTime, now);
  const plan = planPods(job, pods, active, accounts, failedIndexes, ending !== undefined, now);
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
    ...(hasLimitPerIndex(job) ? { failedIndexes: formatIndexes(failedIndexes) } : {}),
  };
  if (isOver) status.terminating = 0;
  const dismissed = new Set(plan.writes.flatMap((write) => (write.kind === "patch" ? [write.object.metadata.uid] : [])));
  const isDone = (index: number): boolean => ending !== undefined || accounts.completed.has(index) || failedIndexes.has(index);
  const held = pendingCounts(job, pods, isDone);
  const releases = accounts.releasable.filter((pod) => !dismissed.has(pod.metadata.uid) && !held.has(pod)).map(release);
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
  failedIndexes: ReadonlySet<number>,
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
  const limit = job.spec.backoffLimit ?? (hasLimitPerIndex(job) ? Number.POSITIVE_INFINITY : 6);
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
  const byIndex = endingByIndexes(job, accounts, failedIndexes);
  if (byIndex !== undefined) return byIndex;
  const succeeded = accounts.succeeded + accounts.uncounted.succeeded.length;
  const { completions } = job.spec;
  const isComplete = completions === undefined ? succeeded > 0 && active === 0 : succeeded >= completions;
  if (!isComplete || job.spec.suspend) return undefined;
  return { type: "Complete", reason: "CompletionsReached", message: "Reached expected number of succeeded pods" };
}

/** The end of an Indexed Job by its failed indexes, or by its success policy. */
function endingByIndexes(job: CachedJob, { completed }: Accounts, failed: ReadonlySet<number>): Ending | undefined {
  const { maxFailedIndexes, completions = 0 } = job.spec;
  if (hasLimitPerIndex(job) && maxFailedIndexes !== undefined && failed.size > maxFailedIndexes) {
    const message = "Job has exceeded the specified maximal number of failed indexes";
    return { type: "Failed", reason: "MaxFailedIndexesExceeded", message };
  }
  if (hasLimitPerIndex(job) && failed.size > 0 && failed.size + completed.size >= completions) {
    return { type: "Failed", reason: "FailedIndexes", message: "Job has failed indexes" };
  }
  const rule = metSuccessRule(job, completed);
  return rule === undefined
    ? undefined
    : { type: "Complete", reason: "SuccessPolicy", message: `Matched rules at index ${rule}` };
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
  return status?.conditions ?? [];
}

function isEnd(type: string): boolean {
  return type === "Complete" || type === "Failed";
}
