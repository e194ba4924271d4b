import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { isLongRunning, isPerRobot, type Job, type TaskGroupTemplate } from "../../api/job.ts";
import { labels } from "../../api/names.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";
import { labelValue } from "../../work/child-name.ts";
import type { ConditionClaim } from "../../work/conditions.ts";
import { taskGroupSpecOf } from "../../work/task-group-spec.ts";
import type { JobDecision, JobObservation } from "./job-observation.ts";
import { addGroup, emptyPlan, type GroupPlan, jobStatusOf, newGroupName } from "./job-status.ts";
import { decideRollingJob } from "./rolling-job-decision.ts";

const noWrites: JobDecision = { groups: [] };

/**
 * Decides about a Job.
 *
 * **Guarantees**: a Job that has ended does not change. A change of a long-running Job is rolled out ({@link decideRollingJob}). Otherwise,
 * a TaskGroup keeps the template that it was created from; of later spec
 * changes, only `count` and new groups take effect, and the condition SpecApplied names the others. A TaskGroup's name follows
 * from the Job alone, so creating it is idempotent.
 */
export function decideJob(observation: JobObservation): JobDecision {
  const { job } = observation;
  if (job.metadata.deletionTimestamp !== undefined) return noWrites;
  if (isLongRunning(job.spec.type)) return decideRollingJob(observation);
  const state = job.status?.state;
  // Further robots may join.
  if (!isPerRobot(job.spec.type) && (state === "completed" || state === "failed")) return noWrites;
  const plan = planGroups(observation);
  const status = jobStatusOf(observation, plan, [
    { type: "SpecApplied", observedGeneration: job.metadata.generation ?? 0, ...specApplied(plan.ignored) },
  ]);
  return jsonEquals(status, job.status) ? { groups: plan.drafts } : { groups: plan.drafts, status };
}

function planGroups(observation: JobObservation): GroupPlan {
  const { job, groups } = observation;
  const plan = emptyPlan();
  for (const template of job.spec.taskGroups) {
    const existing = groups.find((group) => group.spec.groupName === template.name);
    if (existing === undefined) planNewGroup(observation, template, plan);
    else planExistingGroup(job, template, existing, plan);
    addGroup(plan, existing, template, job.spec.type);
  }
  for (const group of groups) {
    if (job.spec.taskGroups.some((template) => template.name === group.spec.groupName)) continue;
    plan.ignored.push(`removal of taskGroups[name=${group.spec.groupName}]`);
    addGroup(plan, group);
    plan.names.push(group.metadata.name ?? "");
  }
  return plan;
}

function planNewGroup(
  { job, groupNamed }: JobObservation,
  template: DeepReadonly<TaskGroupTemplate>,
  { drafts, names }: GroupPlan,
): void {
  const { name: jobName = "" } = job.metadata;
  const { name, isFree } = newGroupName(job, template.name, groupNamed);
  names.push(name);
  if (!isFree) return;
  drafts.push({ name, labels: { [labels.job]: labelValue(jobName) }, spec: taskGroupSpecOf(jobName, job.spec, template) });
}

function planExistingGroup(
  job: DeepReadonly<Job>,
  template: DeepReadonly<TaskGroupTemplate>,
  existing: DeepReadonly<TaskGroup>,
  { drafts, ignored, names }: GroupPlan,
): void {
  const { name = "" } = existing.metadata;
  names.push(name);
  const { count: _wantedCount, ...wanted } = taskGroupSpecOf(job.metadata.name ?? "", job.spec, template);
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

function specApplied(ignored: readonly string[]): Pick<ConditionClaim, "status" | "reason" | "message"> {
  if (ignored.length === 0) return { status: "True", reason: "Applied", message: "" };
  const message = `a TaskGroup keeps the template that it was created from; without effect: ${ignored.join(", ")}`;
  return { status: "False", reason: "TemplatesFrozen", message };
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
