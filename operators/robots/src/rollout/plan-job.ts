import { apiVersionOf, type DeepReadonly } from "@keelson/api-machinery";
import { isLongRunning, type Job, type TaskGroupTemplate } from "../api/job.ts";
import type { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { childName } from "../work/child-name.ts";
import { copiesOf, type GroupCopy, keyOf, keyOfCopy, specOf } from "../work/group-copies.ts";
import { demandOf } from "../placement/demand.ts";
import { decidePlacement, explainRobots, type Load } from "../placement/placement.ts";
import { copiesAmong, loadOfTasks } from "../placement/robot-loads.ts";
import { taskGroupSpecOf } from "../work/task-group-spec.ts";
import { firstRevision } from "./copies.ts";
import { changedPaths, groupPart, isSameRevision, type JobRevision, type JobSpec } from "./job-revision.ts";

/** Input of {@link planJob}. */
export interface JobPlanObservation {
  /** The Job as it would be. */
  readonly job: DeepReadonly<Job>;
  /** The Job as it is; undefined if it does not exist. */
  readonly live: DeepReadonly<Job> | undefined;
  /** Revisions of the Job. Tasks of another revision than the present spec are compared with theirs. */
  readonly revisions: readonly JobRevision[];
  /** TaskGroups and Tasks of the Job. */
  readonly groups: readonly DeepReadonly<TaskGroup>[];
  readonly tasks: readonly DeepReadonly<Task>[];
  /** All Tasks and robots of the namespace. */
  readonly allTasks: readonly DeepReadonly<Task>[];
  readonly robots: readonly DeepReadonly<Robot>[];
}

/** What would happen to a task. */
export interface PlannedTask {
  readonly group: string;
  /** Task and index: `run/0`. */
  readonly task: string;
  readonly action: "create" | "restart" | "move" | "stop" | "keep" | "ignore";
  /** Robot of the task afterwards, or the present one of a task that stops. */
  readonly robot: string | undefined;
  readonly why: string;
}

/**
 * Plans what a changed Job would do to its tasks. It is a snapshot: robots and other tasks may change until the change is applied, and a
 * rollout moves on in steps.
 */
export function planJob(observed: JobPlanObservation): readonly PlannedTask[] {
  const { job, groups, tasks } = observed;
  const assigned: DeepReadonly<Task>[] = [];
  const planned = job.spec.taskGroups.flatMap((template) => planGroup(observed, template, assigned));
  const removed = groups.filter(({ spec }) => !job.spec.taskGroups.some(({ name }) => name === spec.groupName));
  const isRolling = isLongRunning(job.spec.type);
  return [
    ...planned,
    ...removed.flatMap((group) =>
      tasksOf(group, tasks).map((task) => ({
        group: group.spec.groupName,
        task: keyOf(task),
        action: isRolling ? ("stop" as const) : ("ignore" as const),
        robot: task.spec.targetRobot,
        why: isRolling ? "the group is removed" : "the removal of a group has no effect for this type",
      })),
    ),
  ];
}

function tasksOf(group: DeepReadonly<TaskGroup> | undefined, tasks: readonly DeepReadonly<Task>[]) {
  const uid = group?.metadata.uid;
  return tasks.filter(({ metadata }) =>
    metadata.ownerReferences?.some((owner) => owner.controller === true && owner.uid === uid),
  );
}

function planGroup(
  observed: JobPlanObservation,
  template: DeepReadonly<TaskGroupTemplate>,
  assigned: DeepReadonly<Task>[],
): PlannedTask[] {
  const { job, live, groups, tasks, robots } = observed;
  const spec = taskGroupSpecOf(job.metadata.name ?? "", job.spec, template);
  const group = groups.find((each) => each.spec.groupName === template.name);
  const present = new Map(tasksOf(group, tasks).map((task) => [keyOf(task), task]));
  const planned = groupPart(job.spec, template.name) ?? {};
  const isSame = live === undefined || isSameRevision(live.spec, job.spec);
  const changesOf = (task: DeepReadonly<Task>): readonly string[] =>
    isSame ? [] : changedPaths(runningPart(observed, live.spec, template.name, task), planned);
  const copies = copiesOf(spec, robots);
  const wanted = new Set(copies.map(keyOfCopy));
  const groupOf = { metadata: group?.metadata ?? { name: childName(spec.jobName, template.name) }, spec };
  return [
    ...copies.map((copy) => {
      const task = present.get(keyOfCopy(copy));
      const isNew = task === undefined;
      const draft = { ...specTask(observed, groupOf, copy), ...(isNew ? {} : { metadata: task.metadata }) };
      const outcome = isNew ? planCreation(observed, draft, assigned) : planChange(observed, task, draft, changesOf(task));
      if (isNew && outcome.robot !== undefined) {
        assigned.push({ ...draft, spec: { ...draft.spec, targetRobot: outcome.robot } });
      }
      return { group: template.name, task: keyOfCopy(copy), ...outcome };
    }),
    ...[...present.values()]
      .filter((task) => !wanted.has(keyOf(task)))
      .map((task) => ({
        group: template.name,
        task: keyOf(task),
        action: "stop" as const,
        robot: task.spec.targetRobot,
        why:
          changesOf(task).length > 0
            ? `changed: ${changesOf(task).join(", ")}`
            : "the count is lower, or its robot does not match",
      })),
  ];
}

/** What a task was created from. After a revert, it is another revision than that of the stored spec. */
function runningPart(
  { revisions }: JobPlanObservation,
  live: DeepReadonly<JobSpec>,
  group: string,
  { spec }: DeepReadonly<Task>,
): Record<string, unknown> {
  const source = revisions.findLast(({ groupRevisions }) => groupRevisions[group] === (spec.revision ?? firstRevision));
  return groupPart(source?.spec ?? live, group) ?? {};
}

function specTask(
  { job }: JobPlanObservation,
  group: Pick<DeepReadonly<TaskGroup>, "metadata" | "spec">,
  copy: GroupCopy,
): DeepReadonly<Task> {
  const metadata = { namespace: job.metadata.namespace ?? "default" };
  return { apiVersion: apiVersionOf(Task), kind: Task.kind, metadata, spec: specOf(group, copy.definition, copy.robot) };
}

type Outcome = Pick<PlannedTask, "action" | "robot" | "why">;

function planCreation(
  { job, robots, allTasks }: JobPlanObservation,
  task: DeepReadonly<Task>,
  assigned: readonly DeepReadonly<Task>[],
): Outcome {
  const load = (robot: string): Load => loadOfTasks([...allTasks, ...assigned], robot);
  const placement = decidePlacement(demandOf(task, job), robots, load, copiesAmong(task, job, [...allTasks, ...assigned]));
  return placement.kind === "placed"
    ? { action: "create", robot: placement.robot.metadata.name, why: "the task does not exist" }
    : { action: "create", robot: task.spec.targetRobot, why: `it waits: ${placement.message}` };
}

function planChange(
  { job, robots, allTasks }: JobPlanObservation,
  present: DeepReadonly<Task>,
  planned: DeepReadonly<Task>,
  changes: readonly string[],
): Outcome {
  const name = present.spec.targetRobot;
  if (changes.length === 0) return { action: "keep", robot: name, why: "" };
  const why = `changed: ${changes.join(", ")}`;
  if (!isLongRunning(job.spec.type)) {
    return { action: "ignore", robot: name, why: `${why}; a task of type ${job.spec.type ?? "batch"} keeps its template` };
  }
  const robot = robots.find(({ metadata }) => metadata.name === name);
  const others = allTasks.filter(({ metadata }) => metadata.uid !== present.metadata.uid);
  const demand = demandOf(planned, job);
  const load = (each: string): Load => loadOfTasks(others, each);
  const misfit = robot === undefined ? undefined : explainRobots(demand, [robot], load)[0];
  if (robot === undefined) return { action: "restart", robot: name, why };
  if (misfit === undefined) return { action: "restart", robot: name, why };
  if (robot.status?.phase !== "Online")
    return { action: "restart", robot: name, why: `${why}; follows when its robot returns` };
  const placement = decidePlacement(demand, robots, load, copiesAmong(planned, job, others));
  return placement.kind === "placed"
    ? { action: "move", robot: placement.robot.metadata.name, why: `${why}; ${name} is ${misfit}` }
    : { action: "move", robot: undefined, why: `${why}; ${name} is ${misfit}, and it waits: ${placement.message}` };
}
