import { controllerReference, draft, jsonEquals } from "@keelson/api-machinery";
import { CronJob, type CronJobObject, Job, type JobObject } from "@keelson/api-machinery/kinds";
import { formatTime, parseTime } from "@keelson/api-machinery/time";
import type { WorkloadCondition } from "../workload/workload-conditions.ts";
import { type Cached, type Decision, eventWrite, type Write } from "../workload/write.ts";
import { type CronSchedule, formatInZone, parseSchedule } from "./cron-schedule.ts";

/** A CronJob from the cache. */
export type CachedCronJob = Cached<CronJobObject>;
type CachedJob = Cached<JobObject>;

/** Annotation of a Job: the time for which it was created. */
const scheduledTimeAnnotation = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/** Beyond this many missed times, kube-controller-manager warns. */
const maxMissed = 100;
/** Avoids a reconcile a moment before the scheduled time. */
const requeueDelayMs = 100;

/** The input of {@link decideCronJob}. */
export interface ObservedCronJob {
  readonly cronJob: CachedCronJob;
  /** The Jobs that it controls. */
  readonly jobs: readonly CachedJob[];
}

/** Decides the next step of a CronJob: cleanup of finished Jobs, a Job for the latest scheduled time, and its status. */
export function decideCronJob({ cronJob, jobs }: ObservedCronJob, now: number): Decision {
  if (cronJob.metadata.deletionTimestamp !== undefined) return { writes: [] };
  const cleanup = cleanUp(cronJob, jobs);
  const active = jobs.filter((job) => endOf(job) === undefined && job.metadata.deletionTimestamp === undefined);
  const events = completionEvents(cronJob, jobs);
  const start = cronJob.spec.suspend === true ? { writes: [] } : startJob(cronJob, jobs, active, now);
  const status = statusOf(cronJob, jobs, active, start.scheduledAt);
  const statusWrites: readonly Write[] = jsonEquals(cronJob.status ?? {}, status)
    ? []
    : [{ kind: "status", type: CronJob, object: { ...cronJob, status } as Cached }];
  return {
    writes: [...cleanup, ...start.writes, ...statusWrites, ...(statusWrites.length > 0 ? events : [])],
    requeueAfterMs: start.requeueAfterMs,
  };
}

interface Start {
  readonly writes: readonly Write[];
  /** The time for which a Job is created now. */
  readonly scheduledAt?: number;
  readonly requeueAfterMs?: number | undefined;
}

function startJob(cronJob: CachedCronJob, jobs: readonly CachedJob[], active: readonly CachedJob[], now: number): Start {
  const { schedule: text, timeZone, concurrencyPolicy } = cronJob.spec;
  let schedule: CronSchedule;
  try {
    schedule = parseSchedule(text, timeZone);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    // Nothing but a change of the spec can help, which triggers a reconcile.
    return { writes: [warn(cronJob, "UnparseableSchedule", `unparseable schedule: ${JSON.stringify(text)} : ${reason}`)] };
  }
  const next = schedule.next(now);
  const requeueAfterMs = next === undefined ? undefined : next - now + requeueDelayMs;
  const { scheduledAt, missed } = latestMissed(cronJob, schedule, now);
  if (scheduledAt === undefined) return { writes: [], requeueAfterMs };
  const writes: Write[] = [];
  if (missed > maxMissed) {
    const note = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
    writes.push(warn(cronJob, "TooManyMissedTimes", note));
  }
  const name = jobName(cronJob, scheduledAt);
  if (jobs.some(({ metadata }) => metadata.name === name)) return { writes: [], scheduledAt, requeueAfterMs };
  if (concurrencyPolicy === "Forbid" && active.length > 0) {
    const note = "Not starting job because prior execution is running and concurrency policy is Forbid";
    return { writes: [...writes, eventWrite(cronJob, "Normal", "JobAlreadyActive", note)], requeueAfterMs };
  }
  if (concurrencyPolicy === "Replace") {
    writes.push(...active.map((object): Write => ({ kind: "delete", type: Job, object, owner: cronJob })));
  }
  const object = jobOf(cronJob, name, scheduledAt);
  writes.push({ kind: "create", type: Job, object, owner: cronJob, mayExist: true });
  return { writes, scheduledAt, requeueAfterMs };
}

/** The latest scheduled time for which no Job was created yet, within the starting deadline, and how many were missed. */
function latestMissed(
  cronJob: CachedCronJob,
  schedule: CronSchedule,
  now: number,
): { readonly scheduledAt: number | undefined; readonly missed: number } {
  const { startingDeadlineSeconds: deadline } = cronJob.spec;
  const last = parseTime(cronJob.status?.lastScheduleTime ?? cronJob.metadata.creationTimestamp ?? "") ?? now;
  const earliest = deadline === undefined ? last : Math.max(last, now - deadline * 1_000);
  const [latest] = schedule.previous(now, 1);
  if (latest === undefined || latest <= earliest || latest > now) return { scheduledAt: undefined, missed: 0 };
  // Counting is only worth its time if there is another one.
  const isSingle = (schedule.previous(latest - 1_000, 1)[0] ?? 0) <= earliest;
  if (isSingle) return { scheduledAt: latest, missed: 1 };
  const missed = schedule.previous(now, maxMissed + 1).filter((time) => time > earliest && time <= now);
  return { scheduledAt: missed[0], missed: missed.length };
}

function jobName({ metadata }: CachedCronJob, scheduledAt: number): string {
  return `${metadata.name}-${Math.floor(scheduledAt / 60_000)}`;
}

function jobOf(cronJob: CachedCronJob, name: string, scheduledAt: number) {
  const { metadata, spec } = cronJob.spec.jobTemplate;
  const { namespace } = cronJob.metadata;
  return {
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      labels: { ...metadata?.labels },
      annotations: { ...metadata?.annotations, [scheduledTimeAnnotation]: formatInZone(scheduledAt, cronJob.spec.timeZone) },
      ownerReferences: [controllerReference(cronJob)],
    },
    spec: draft(spec),
  };
}

/** Deletes finished Jobs beyond the history limits, oldest first. */
function cleanUp(cronJob: CachedCronJob, jobs: readonly CachedJob[]): readonly Write[] {
  const { successfulJobsHistoryLimit = 3, failedJobsHistoryLimit = 1 } = cronJob.spec;
  const surplus = (type: "Complete" | "Failed", limit: number): readonly CachedJob[] => {
    const finished = jobs
      .filter((job) => endOf(job) === type && job.metadata.deletionTimestamp === undefined)
      .toSorted((a, b) => startOf(a) - startOf(b));
    return finished.slice(0, Math.max(finished.length - limit, 0));
  };
  return [...surplus("Complete", successfulJobsHistoryLimit), ...surplus("Failed", failedJobsHistoryLimit)].map((object) => ({
    kind: "delete",
    type: Job,
    object,
    owner: cronJob,
  }));
}

function completionEvents(cronJob: CachedCronJob, jobs: readonly CachedJob[]): readonly Write[] {
  return (cronJob.status?.active ?? []).flatMap(({ uid, name }): readonly Write[] => {
    const job = jobs.find(({ metadata }) => metadata.uid === uid);
    if (job === undefined) return [eventWrite(cronJob, "Normal", "MissingJob", `Active job went missing: ${name}`)];
    const end = endOf(job);
    if (end === undefined) return [];
    return [eventWrite(cronJob, "Normal", "SawCompletedJob", `Saw completed job: ${name}, condition: ${end}`)];
  });
}

function statusOf(
  { status = {} }: CachedCronJob,
  jobs: readonly CachedJob[],
  active: readonly CachedJob[],
  scheduledAt: number | undefined,
): NonNullable<CronJobObject["status"]> {
  const completions = jobs
    .filter((job) => endOf(job) === "Complete")
    .flatMap((job) => parseTime(job.status?.completionTime ?? "") ?? []);
  const lastSuccess = Math.max(parseTime(status.lastSuccessfulTime ?? "") ?? 0, ...completions);
  const references = active
    .toSorted((a, b) => startOf(a) - startOf(b))
    .map(({ metadata: { name, namespace = "", uid, resourceVersion = "" } }) => {
      // The version at which the Job was first seen, so that its changes do not change this status.
      const known = status.active?.find((one) => one.uid === uid);
      return known === undefined
        ? { apiVersion: "batch/v1", kind: "Job", name, namespace, uid, resourceVersion }
        : { ...known };
    });
  const lastScheduleTime = scheduledAt === undefined ? status.lastScheduleTime : formatTime(scheduledAt);
  return {
    ...(references.length > 0 ? { active: references } : {}),
    ...(lastScheduleTime === undefined ? {} : { lastScheduleTime }),
    ...(lastSuccess > 0 ? { lastSuccessfulTime: formatTime(lastSuccess) } : {}),
  };
}

function endOf({ status }: CachedJob): "Complete" | "Failed" | undefined {
  const conditions = (status?.conditions ?? []) as readonly WorkloadCondition[];
  for (const type of ["Complete", "Failed"] as const) {
    if (conditions.some((condition) => condition.type === type && condition.status === "True")) return type;
  }
  return undefined;
}

function startOf({ status, metadata }: CachedJob): number {
  return parseTime(status?.startTime ?? metadata.creationTimestamp ?? "") ?? 0;
}

function warn(cronJob: CachedCronJob, reason: string, note: string): Write {
  return eventWrite(cronJob, "Warning", reason, note);
}
