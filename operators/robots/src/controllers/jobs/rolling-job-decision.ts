import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Job, TaskGroupTemplate } from "../../api/job.ts";
import { labels, promotedRevisionAnnotation } from "../../api/names.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";
import { isSameRevision, type JobRevision, revisionData, revisionName } from "../../rollout/job-revision.ts";
import { decideJobRollout, type JobRolloutDecision } from "../../rollout/job-rollout.ts";
import { completeUpdatePolicy, mergeUpdatePolicies } from "../../rollout/update-policy.ts";
import { labelValue } from "../../work/child-name.ts";
import type { ConditionClaim } from "../../work/conditions.ts";
import { taskGroupSpecOf } from "../../work/task-group-spec.ts";
import type { JobDecision, JobObservation, TaskGroupDraft } from "./job-observation.ts";
import { addGroup, emptyPlan, type GroupPlan, jobStatusOf, newGroupName } from "./job-status.ts";

const defaultHistoryLimit = 10;

/**
 * Decides about a Job of type service or system. Every change of its spec, apart from counts and the way of updating, is a revision that is
 * rolled out.
 *
 * **Guarantees**: a revision is stored before a TaskGroup refers to it. The revisions that run are never deleted.
 */
export function decideRollingJob(observation: JobObservation): JobDecision {
  const { job, revisions, groups } = observation;
  const latest = revisions.at(-1);
  if (latest === undefined || !isSameRevision(latest.spec, job.spec)) {
    const number = (latest?.number ?? (hasUnknownHistory(observation) ? 1 : 0)) + 1;
    return {
      groups: [],
      newRevision: { name: revisionName(job, number), number, data: revisionData(job.spec, number, revisions) },
    };
  }
  const rollout = decideJobRollout({
    spec: job.spec,
    revisions,
    groups,
    hasUnknownHistory: latest.number > 1 && revisions.length === 1,
    promoted: Number(job.metadata.annotations?.[promotedRevisionAnnotation] ?? 0) || 0,
    before: job.status?.rollout,
  });
  if (rollout === undefined) return { groups: [] };
  const plan = planGroups(observation, rollout);
  const status = {
    ...jobStatusOf(observation, plan, claimsOf(job, rollout, plan)),
    rollout: rollout.status,
  };
  const removeGroups = rollout.isDone ? groupsWithout(rollout.target, groups) : [];
  return {
    groups: rollout.statusFirst ? [] : plan.drafts,
    removeGroups,
    removeRevisions: expiredRevisions(observation, rollout),
    ...(jsonEquals(status, job.status) ? {} : { status, events: rollout.events }),
  };
}

/** Whether the TaskGroups are older than revisions, and the spec has changed since. */
function hasUnknownHistory({ job, groups }: JobObservation): boolean {
  return groups.some((group) => {
    const template = job.spec.taskGroups.find(({ name }) => name === group.spec.groupName);
    if (group.spec.revision !== undefined || template === undefined) return false;
    const wanted = taskGroupSpecOf(job.metadata.name ?? "", job.spec, template);
    return !jsonEquals(wanted.tasks, group.spec.tasks) || !jsonEquals(wanted.robotSelector, group.spec.robotSelector);
  });
}

function planGroups({ job, groups, groupNamed }: JobObservation, rollout: JobRolloutDecision): GroupPlan {
  const plan = emptyPlan();
  const { spec } = rollout.target;
  for (const past of spec.taskGroups) {
    const live = job.spec.taskGroups.find(({ name }) => name === past.name);
    const template = { ...past, count: live?.count ?? past.count };
    const existing = groups.find((group) => group.spec.groupName === past.name);
    const wanted = { ...taskGroupSpecOf(job.metadata.name ?? "", spec, template), ...rolloutFields(job, past, live, rollout) };
    planGroup(job, existing, wanted, groupNamed, plan);
    addGroup(plan, existing, template, job.spec.type);
  }
  for (const group of groups) {
    if (spec.taskGroups.some(({ name }) => name === group.spec.groupName)) continue;
    addGroup(plan, group);
    plan.names.push(group.metadata.name ?? "");
  }
  return plan;
}

function planGroup(
  job: DeepReadonly<Job>,
  existing: DeepReadonly<TaskGroup> | undefined,
  wanted: TaskGroupDraft["spec"],
  groupNamed: JobObservation["groupNamed"],
  { drafts, names }: GroupPlan,
): void {
  const { name, isFree } =
    existing === undefined
      ? newGroupName(job, wanted.groupName, groupNamed)
      : { name: existing.metadata.name ?? "", isFree: true };
  names.push(name);
  if (!isFree || (existing !== undefined && isUpToDate(existing.spec, wanted))) return;
  drafts.push({ name, labels: { [labels.job]: labelValue(job.metadata.name ?? "") }, spec: wanted });
}

/** The template follows from the revision. */
function isUpToDate(present: TaskGroupDraft["spec"], wanted: TaskGroupDraft["spec"]): boolean {
  return (
    present.revision === wanted.revision &&
    present.count === wanted.count &&
    jsonEquals(present.update, wanted.update) &&
    jsonEquals(present.rollout, wanted.rollout)
  );
}

function rolloutFields(
  job: DeepReadonly<Job>,
  { name }: DeepReadonly<TaskGroupTemplate>,
  template: DeepReadonly<TaskGroupTemplate> | undefined,
  { target, stable, status, isRevert, isPromoted, isDone }: JobRolloutDecision,
): Pick<TaskGroupDraft["spec"], "revision" | "update" | "rollout"> {
  const update = mergeUpdatePolicies([template?.update, job.spec.update]);
  // The groups of a failed rollout stay as they are.
  const isPaused = job.spec.paused === true || status.phase === "failed";
  const stableRevision = isDone ? target : stable;
  return {
    revision: target.groupRevisions[name] ?? target.number,
    ...(Object.keys(update).length === 0 ? {} : { update }),
    rollout: {
      stable: stableRevision?.groupRevisions[name] ?? 0,
      ...(isPaused ? { isPaused } : {}),
      ...(isPromoted ? { isPromoted } : {}),
      ...(isRevert ? { isRevert } : {}),
    },
  };
}

function groupsWithout({ spec }: JobRevision, groups: readonly DeepReadonly<TaskGroup>[]): readonly string[] {
  return groups
    .filter(
      ({ metadata, spec: group }) =>
        metadata.deletionTimestamp === undefined && !spec.taskGroups.some(({ name }) => name === group.groupName),
    )
    .map(({ metadata }) => metadata.name ?? "");
}

/** Old revisions beyond the limit. */
function expiredRevisions({ job, revisions }: JobObservation, { target, status }: JobRolloutDecision): readonly string[] {
  const used = new Set([target.number, status.stableRevision, status.previousStableRevision, status.latestRevision]);
  const old = revisions.filter(({ number }) => !used.has(number));
  const limit = job.spec.revisionHistoryLimit ?? defaultHistoryLimit;
  return old.slice(0, Math.max(old.length - limit, 0)).map(({ name }) => name);
}

function claimsOf(job: DeepReadonly<Job>, { status, target, isRevert }: JobRolloutDecision, plan: GroupPlan): ConditionClaim[] {
  const observedGeneration = job.metadata.generation ?? 0;
  const { phase, reason = "Progressing", message = "" } = status;
  const hasFailed = phase === "failed" || phase === "reverting" || phase === "reverted";
  const { running, lost, total } = plan.tally;
  const isRolling = phase === "progressing" || phase === "waiting" || phase === "reverting";
  const isAvailable =
    running > lost && target.spec.taskGroups.every(({ name }) => isGroupAvailable(job, name, plan.summary[name], isRolling));
  return [
    isRevert
      ? {
          type: "SpecApplied",
          status: "False",
          observedGeneration,
          reason: "Reverted",
          message: `revision ${status.latestRevision} failed; revision ${target.number} runs`,
        }
      : { type: "SpecApplied", status: "True", observedGeneration, reason: "Applied", message: "" },
    { type: "Progressing", status: hasFailed ? "False" : "True", observedGeneration, reason, message },
    {
      type: "Available",
      status: isAvailable ? "True" : "False",
      observedGeneration,
      reason: isAvailable ? "TasksRunning" : "TasksNotRunning",
      message: `${running} of ${total} tasks are running`,
    },
  ];
}

/** Whether all tasks of a group are running. During a rollout, as many as are updated at the same time may not be. */
function isGroupAvailable(
  job: DeepReadonly<Job>,
  group: string,
  counts: GroupPlan["summary"][string] | undefined,
  isRolling: boolean,
): boolean {
  const { queued = 0, complete = 0, failed = 0, running = 0, lost = 0 } = counts ?? {};
  const total = queued + complete + failed + running;
  return running - lost >= total - (isRolling ? maxParallelOf(job, group, total) : 0);
}

function maxParallelOf(job: DeepReadonly<Job>, group: string, total: number): number {
  const template = job.spec.taskGroups.find(({ name }) => name === group);
  return completeUpdatePolicy([template?.update, job.spec.update], total).maxParallel;
}
