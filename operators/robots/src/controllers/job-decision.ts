import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { isLongRunning, isPerRobot, type Job, type JobType, type TaskGroupTemplate } from "../api/job.ts";
import { labels } from "../api/names.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { childName, claimOf, unambiguousChildName } from "../work/child-name.ts";
import { type ConditionClaim, conditionsOf, hasCondition } from "../work/conditions.ts";
import { completeRestartPolicy } from "../work/restart-policy.ts";
import {
  addTallies,
  emptyTally,
  outcomeConditions,
  type Tally,
  tallyFields,
  type WorkState,
  workStateOf,
} from "../work/tally.ts";

/** Input of {@link decideJob}. */
export interface JobObservation {
  readonly job: DeepReadonly<Job>;
  /** The TaskGroups that the Job owns. */
  readonly groups: readonly DeepReadonly<TaskGroup>[];
  /** Looks up any TaskGroup of the namespace by name. */
  readonly groupNamed: (name: string) => DeepReadonly<TaskGroup> | undefined;
  readonly now: number;
}

/** A TaskGroup to apply. */
export interface TaskGroupDraft {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: DeepReadonly<TaskGroup["spec"]>;
}

/** Writes: first the TaskGroups, then the status (absent: unchanged). */
export interface JobDecision {
  readonly groups: readonly TaskGroupDraft[];
  readonly status?: NonNullable<Job["status"]>;
}

const noWrites: JobDecision = { groups: [] };

/**
 * Decides about a Job.
 *
 * **Guarantees**: a Job that has ended does not change. A TaskGroup keeps the template that it was created from; of later spec
 * changes, only `count` and new groups take effect, and the condition SpecApplied names the others. A TaskGroup's name follows
 * from the Job alone, so creating it is idempotent.
 */
export function decideJob(observation: JobObservation): JobDecision {
  const { job } = observation;
  if (job.metadata.deletionTimestamp !== undefined) return noWrites;
  const state = job.status?.state;
  // Further robots may join.
  if (!isPerRobot(job.spec.type) && (state === "completed" || state === "failed")) return noWrites;
  const plan = planGroups(observation);
  const status = statusOf(observation, plan);
  return jsonEquals(status, job.status) ? { groups: plan.drafts } : { groups: plan.drafts, status };
}

/** The TaskGroups of a Job. */
interface GroupPlan {
  readonly drafts: TaskGroupDraft[];
  /** Spec changes without effect. */
  readonly ignored: string[];
  /** Names of all TaskGroups. */
  readonly names: string[];
  readonly summary: NonNullable<NonNullable<Job["status"]>["taskGroupSummary"]>;
  tally: Tally;
}

function planGroups(observation: JobObservation): GroupPlan {
  const { job, groups } = observation;
  const plan: GroupPlan = { drafts: [], ignored: [], names: [], summary: {}, tally: emptyTally };
  for (const template of job.spec.taskGroups) {
    const existing = groups.find((group) => group.spec.groupName === template.name);
    if (existing === undefined) planNewGroup(observation, template, plan);
    else planExistingGroup(job, template, existing, plan);
    const part = tallyOf(existing, template, job.spec.type);
    plan.tally = addTallies(plan.tally, part);
    plan.summary[template.name] = {
      queued: part.pending,
      complete: part.succeeded,
      failed: part.failed,
      running: part.running,
      ...(part.lost === 0 ? {} : { lost: part.lost }),
    };
  }
  for (const group of groups) {
    if (job.spec.taskGroups.some((template) => template.name === group.spec.groupName)) continue;
    plan.ignored.push(`removal of taskGroups[name=${group.spec.groupName}]`);
    plan.tally = addTallies(plan.tally, tallyOf(group, undefined));
    plan.names.push(group.metadata.name ?? "");
  }
  return plan;
}

function planNewGroup(
  { job, groupNamed }: JobObservation,
  template: DeepReadonly<TaskGroupTemplate>,
  { drafts, names }: GroupPlan,
): void {
  const { name: jobName = "", uid = "" } = job.metadata;
  const plain = childName(jobName, template.name);
  const claim = claimOf(groupNamed(plain), { kind: "Job", name: jobName, uid });
  const name = claim === "foreign" ? unambiguousChildName(jobName, template.name) : plain;
  names.push(name);
  if (claim === "predecessor") return;
  drafts.push({ name, labels: { [labels.job]: labelValue(jobName) }, spec: specOf(job, template) });
}

function planExistingGroup(
  job: DeepReadonly<Job>,
  template: DeepReadonly<TaskGroupTemplate>,
  existing: DeepReadonly<TaskGroup>,
  { drafts, ignored, names }: GroupPlan,
): void {
  const { name = "" } = existing.metadata;
  names.push(name);
  const { count: _wantedCount, ...wanted } = specOf(job, template);
  const { count, ...present } = existing.spec;
  if (!covers(present, wanted)) ignored.push(`taskGroups[name=${template.name}]`);
  if (count === template.count) return;
  const hasEnded = existing.status?.state === "completed" || existing.status?.state === "failed";
  if (hasEnded) {
    ignored.push(`taskGroups[name=${template.name}].count`);
    return;
  }
  const spec = { ...existing.spec, count: template.count };
  drafts.push({ name, labels: { [labels.job]: labelValue(job.metadata.name ?? "") }, spec });
}

function statusOf({ job, now }: JobObservation, { tally, ignored, names, summary }: GroupPlan): NonNullable<Job["status"]> {
  const outcome = workStateOf(tally);
  const state: WorkState = job.spec.type === "system" && outcome === "completed" ? "running" : outcome;
  const observedGeneration = job.metadata.generation ?? 0;
  const claims: ConditionClaim[] = [
    ...outcomeConditions(tally, state, observedGeneration, hasCondition(job, "Lost")),
    { type: "SpecApplied", observedGeneration, ...specApplied(ignored) },
  ];
  const { startedAt, completedAt, ...fields } = tallyFields(tally, state);
  return {
    status: state,
    state,
    observedGeneration,
    ...fields,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
    taskGroups: names,
    taskGroupSummary: summary,
    conditions: conditionsOf(claims, job.status?.conditions, now),
  };
}

function specApplied(ignored: readonly string[]): Pick<ConditionClaim, "status" | "reason" | "message"> {
  if (ignored.length === 0) return { status: "True", reason: "Applied", message: "" };
  const message = `a TaskGroup keeps the template that it was created from; without effect: ${ignored.join(", ")}`;
  return { status: "False", reason: "TemplatesFrozen", message };
}

function specOf(job: DeepReadonly<Job>, template: DeepReadonly<TaskGroupTemplate>): DeepReadonly<TaskGroup["spec"]> {
  const { name, count, tasks, restartPolicy, meta, ...rest } = template;
  return {
    jobName: job.metadata.name ?? "",
    groupName: name,
    count,
    tasks,
    robotSelector: job.spec.robotSelector ?? {},
    ...(isLongRunning(job.spec.type) || isPerRobot(job.spec.type) ? { type: job.spec.type } : {}),
    ...(job.spec.payload === undefined ? {} : { payload: job.spec.payload }),
    ...(job.spec.priority === undefined ? {} : { priority: job.spec.priority }),
    restartPolicy: completeRestartPolicy(restartPolicy, job.spec.type),
    ...(job.spec.meta === undefined && meta === undefined ? {} : { meta: { ...job.spec.meta, ...meta } }),
    ...rest,
  };
}

/** Tally of a TaskGroup. Before its first status, all tasks of the template are pending. */
function tallyOf(
  group: DeepReadonly<TaskGroup> | undefined,
  template: DeepReadonly<TaskGroupTemplate> | undefined,
  type?: JobType,
): Tally {
  const status = group?.status;
  if (status?.totalTasks === undefined || (status.totalTasks === 0 && template)) {
    const total = template === undefined || isPerRobot(type) ? 0 : template.count * template.tasks.length;
    return { ...emptyTally, total, pending: total };
  }
  return {
    total: status.totalTasks,
    pending: status.pendingTasks ?? 0,
    running: status.runningTasks ?? 0,
    succeeded: status.succeededTasks ?? 0,
    failed: status.failedTasks ?? 0,
    lost: status.lostTasks ?? 0,
    ...(status.lostSince === undefined ? {} : { lostSince: status.lostSince }),
    ...(status.startedAt === undefined ? {} : { startedAt: status.startedAt }),
    ...(status.completedAt === undefined ? {} : { completedAt: status.completedAt }),
  };
}

/** Whether `present` contains everything in `wanted`. It may also contain defaults that the API server filled in. */
function covers(present: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(present) &&
      present.length === wanted.length &&
      wanted.every((element, index) => covers(present[index], element))
    );
  }
  if (typeof wanted === "object" && wanted !== null) {
    if (typeof present !== "object" || present === null) return Object.keys(wanted).length === 0;
    return Object.entries(wanted).every(
      ([key, value]) =>
        value === undefined ||
        covers(Object.hasOwn(present, key) ? (present as Record<string, unknown>)[key] : undefined, value),
    );
  }
  return present === wanted;
}

/** A name as a label value, shortened like the name of a child if it exceeds 63 characters. */
export function labelValue(name: string): string {
  return childName(name);
}
