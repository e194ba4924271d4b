import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Job } from "../../api/job.ts";
import { labels } from "../../api/names.ts";
import type { Periodic } from "../../api/parent-job.ts";
import { childName, labelValue } from "../../work/child-name.ts";
import { type ConditionClaim, conditionsOf } from "../../work/conditions.ts";
import { parseCronSchedule } from "@keelson/operator/cron";

/** Input of {@link decideParent}. */
export interface ParentObservation {
  readonly job: DeepReadonly<Job>;
  /** The Jobs that it owns. */
  readonly children: readonly DeepReadonly<Job>[];
  readonly now: number;
}

/** A Job to create from its parent. */
export interface JobDraft {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: DeepReadonly<Job["spec"]>;
}

/** Writes: Jobs to delete, a Job to create, then the status (absent: unchanged), and the event to record with it. */
export interface ParentDecision {
  /** Names. */
  readonly remove: readonly string[];
  readonly create?: JobDraft;
  readonly status?: NonNullable<Job["status"]>;
  readonly event?: { readonly type: "Normal" | "Warning"; readonly reason: string; readonly note: string };
  readonly requeueAfterMs?: number;
}

/** Avoids a reconcile a moment before the scheduled time. */
const requeueDelayMs = 50;

/** Whether a Job only serves as a template for others. */
export function isParent({ spec }: DeepReadonly<Job>): boolean {
  return spec.periodic !== undefined || spec.parameterized !== undefined;
}

/**
 * Decides about a periodic or parameterized Job.
 *
 * **Guarantees**: a scheduled time has at most one Job, whose name follows from the time, so creating it is idempotent. Of missed times, only
 * the last one is made up for. Only ended Jobs are deleted to keep `historyLimit`.
 */
export function decideParent({ job, children, now }: ParentObservation): ParentDecision {
  if (job.metadata.deletionTimestamp !== undefined) return { remove: [] };
  const run =
    job.spec.periodic === undefined
      ? ({ remove: [], claim: templateClaim } as Run)
      : decideRun(job, job.spec.periodic, children, now);
  const active = children.filter((child) => !hasEnded(child)).map(({ metadata }) => metadata.name ?? "");
  const activeJobs = [
    ...active.filter((name) => !run.remove.includes(name)),
    ...(run.create === undefined ? [] : [run.create.name]),
  ];
  const claim: ConditionClaim = { type: "Scheduled", observedGeneration: job.metadata.generation ?? 0, ...run.claim };
  const status: NonNullable<Job["status"]> = {
    status: "running",
    state: "running",
    observedGeneration: job.metadata.generation ?? 0,
    statusDescription: `template of other Jobs; ${activeJobs.length} active`,
    activeJobs: [...new Set(activeJobs)].sort(),
    ...(run.lastMs === undefined ? {} : { lastScheduleTime: new Date(run.lastMs).toISOString() }),
    ...(run.nextMs === undefined ? {} : { nextScheduleTime: new Date(run.nextMs).toISOString() }),
    conditions: conditionsOf([claim], job.status?.conditions, now),
  };
  return {
    remove: run.remove,
    ...(run.create === undefined ? {} : { create: run.create }),
    ...(jsonEquals(status, job.status) ? {} : { status, ...(run.event === undefined ? {} : { event: run.event }) }),
    ...(run.nextMs === undefined ? {} : { requeueAfterMs: run.nextMs - now + requeueDelayMs }),
  };
}

interface Run {
  readonly remove: readonly string[];
  readonly create?: JobDraft;
  readonly lastMs?: number;
  readonly nextMs?: number;
  readonly claim: Pick<ConditionClaim, "status" | "reason" | "message">;
  readonly event?: ParentDecision["event"];
}

const templateClaim = { status: "True", reason: "Parameterized", message: "dispatch it: keelson robots dispatch" } as const;

function decideRun(
  job: DeepReadonly<Job>,
  periodic: DeepReadonly<Periodic>,
  children: readonly DeepReadonly<Job>[],
  now: number,
): Run {
  const { lastScheduleTime } = job.status ?? {};
  const known = lastScheduleTime === undefined ? {} : { lastMs: Date.parse(lastScheduleTime) };
  const timeZone = periodic.timeZone ?? "UTC";
  const schedule = parseCronSchedule(periodic.cron, timeZone);
  if ("problem" in schedule) {
    const message = `spec.periodic: ${JSON.stringify(periodic.cron)} in ${timeZone}: ${schedule.problem}`;
    const claim = { status: "False", reason: "InvalidSchedule", message } as const;
    return { remove: [], ...known, claim, event: { type: "Warning", reason: "InvalidSchedule", note: message } };
  }
  if (periodic.enabled === false) {
    return { remove: [], ...known, claim: { status: "False", reason: "Disabled", message: "spec.periodic.enabled is false" } };
  }
  const nextMs = schedule.next(now);
  const next = nextMs === undefined ? {} : { nextMs };
  const claim = { status: "True", reason: "Periodic", message: `${periodic.cron} (${timeZone})` } as const;
  const expired = expiredRuns(children, periodic.historyLimit ?? 5);
  const dueMs = schedule.last(now);
  const doneMs = known.lastMs ?? Date.parse(job.metadata.creationTimestamp ?? "");
  if (dueMs === undefined || !(dueMs > doneMs)) return { remove: expired, ...known, ...next, claim };
  const scheduled = { lastMs: dueMs, ...next, claim };
  const running = children.filter((child) => !hasEnded(child)).map(({ metadata }) => metadata.name ?? "");
  const name = childName(job.metadata.name ?? "", "periodic", String(Math.floor(dueMs / 1000)));
  if (children.some(({ metadata }) => metadata.name === name)) return { remove: expired, ...scheduled };
  if (periodic.overlap === "forbid" && running.length > 0) {
    const note = `skipped the run of ${new Date(dueMs).toISOString()}: ${running.join(", ")} has not ended`;
    return { remove: expired, ...scheduled, event: { type: "Normal", reason: "RunSkipped", note } };
  }
  const replaced = periodic.overlap === "replace" ? running : [];
  return {
    remove: [...expired, ...replaced],
    create: draftOf(job, name),
    ...scheduled,
    event: { type: "Normal", reason: "RunStarted", note: `created Job ${name}` },
  };
}

/** A Job that runs what its parent describes. `overrides` are the parameters of a dispatch. */
export function draftOf(
  parent: DeepReadonly<Job>,
  name: string,
  overrides: Pick<DeepReadonly<Job["spec"]>, "meta" | "payload"> = {},
): JobDraft {
  const { periodic: _periodic, parameterized: _parameterized, ...spec } = parent.spec;
  return { name, labels: { [labels.parent]: labelValue(parent.metadata.name ?? "") }, spec: { ...spec, name, ...overrides } };
}

/** Ended runs beyond the limit, oldest first. */
function expiredRuns(children: readonly DeepReadonly<Job>[], limit: number): readonly string[] {
  const ended = children
    .filter((child) => hasEnded(child) && child.metadata.deletionTimestamp === undefined)
    .map(({ metadata }) => ({ name: metadata.name ?? "", createdAt: Date.parse(metadata.creationTimestamp ?? "") }))
    .sort((a, b) => a.createdAt - b.createdAt || (a.name < b.name ? -1 : 1));
  return ended.slice(0, Math.max(ended.length - limit, 0)).map(({ name }) => name);
}

function hasEnded({ status }: DeepReadonly<Job>): boolean {
  return status?.state === "completed" || status?.state === "failed";
}
