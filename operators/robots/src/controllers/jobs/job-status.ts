import type { DeepReadonly } from "@keelson/api-machinery";
import { isPerRobot, type Job, type JobType, type TaskGroupTemplate } from "../../api/job.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";
import { childName, claimOf, unambiguousChildName } from "../../work/child-name.ts";
import { type ConditionClaim, conditionsOf, hasCondition } from "../../work/conditions.ts";
import {
  addTallies,
  emptyTally,
  outcomeConditions,
  type Tally,
  tallyFields,
  type WorkState,
  workStateOf,
} from "../../work/tally.ts";
import type { TaskGroupDraft } from "./job-observation.ts";

/** The TaskGroups of a Job. */
export interface GroupPlan {
  readonly drafts: TaskGroupDraft[];
  /** Spec changes without effect. */
  readonly ignored: string[];
  /** Names of all TaskGroups. */
  readonly names: string[];
  readonly summary: NonNullable<NonNullable<Job["status"]>["taskGroupSummary"]>;
  tally: Tally;
}

/** A plan without groups. */
export function emptyPlan(): GroupPlan {
  return { drafts: [], ignored: [], names: [], summary: {}, tally: emptyTally };
}

/** Adds the tasks of a group to a plan. `template` is absent if the spec no longer has the group. */
export function addGroup(
  plan: GroupPlan,
  group: DeepReadonly<TaskGroup> | undefined,
  template?: DeepReadonly<TaskGroupTemplate>,
  type?: JobType,
): void {
  const part = tallyOf(group, template, type);
  plan.tally = addTallies(plan.tally, part);
  if (template === undefined) return;
  plan.summary[template.name] = {
    queued: part.pending,
    complete: part.succeeded,
    failed: part.failed,
    running: part.running,
    ...(part.lost === 0 ? {} : { lost: part.lost }),
  };
}

/** The name of a new TaskGroup, and whether it can be created now. */
export function newGroupName(
  job: DeepReadonly<Job>,
  group: string,
  groupNamed: (name: string) => DeepReadonly<TaskGroup> | undefined,
): { readonly name: string; readonly isFree: boolean } {
  const { name: jobName = "", uid = "" } = job.metadata;
  const plain = childName(jobName, group);
  const claim = claimOf(groupNamed(plain), { kind: "Job", name: jobName, uid });
  const name = claim === "foreign" ? unambiguousChildName(jobName, group) : plain;
  return { name, isFree: claim !== "predecessor" };
}

/** The status of a Job. `claims` are the conditions that do not follow from the tasks. */
export function jobStatusOf(
  { job, now }: { readonly job: DeepReadonly<Job>; readonly now: number },
  { tally, names, summary }: GroupPlan,
  claims: readonly ConditionClaim[],
): NonNullable<Job["status"]> {
  const outcome = workStateOf(tally);
  const state: WorkState = job.spec.type === "system" && outcome === "completed" ? "running" : outcome;
  const observedGeneration = job.metadata.generation ?? 0;
  const all = [...outcomeConditions(tally, state, observedGeneration, hasCondition(job, "Lost")), ...claims];
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
    conditions: conditionsOf(all, job.status?.conditions, now),
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
