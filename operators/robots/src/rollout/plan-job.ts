import { apiVersionOf, type DeepReadonly } from "@keelson/api-machinery";
import type { AssignedDevices } from "../api/device.ts";
import { isLongRunning, type Job, type TaskGroupTemplate } from "../api/job.ts";
import type { Robot } from "../api/robot.ts";
import { Task } from "../api/task.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { childName } from "../work/child-name.ts";
import { copiesOf, type GroupCopy, keyOf, keyOfCopy, specOf } from "../work/group-copies.ts";
import { demandOf } from "../placement/demand.ts";
import { decidePlacement, explainRobots, type Load, preferenceScorer } from "../placement/placement.ts";
import { copiesAmong } from "../placement/robot-loads.ts";
import { loadFor, type RobotUse, usesAmong } from "../placement/robot-use.ts";
import { taskGroupSpecOf } from "../work/task-group-spec.ts";
import { decideTaskPreemption, isPreemptedBy } from "../controllers/moves/preemption-decision.ts";
import { firstRevision } from "./copies.ts";
import { changedPaths, groupPart, isSameRevision, type JobRevision, type JobSpec } from "./job-revision.ts";

/** Input of {@link planJob}. */
export interface JobPlanObservation {
  /** The Job as it would be. */
  readonly job: DeepReadonly<Job>;
  /** The Job as it is; undefined if it does not exist. */
  readonly live: DeepReadonly<Job> | undefined;
  /** Revisions of the Job. Tasks of another revision than the current spec are compared with theirs. */
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
  /** Devices of a task that is created. Default: none. */
  readonly devices?: AssignedDevices;
  /** Names of the tasks of lower priority that it stops. Default: none. */
  readonly preempts?: readonly string[];
}

/** What the plan has assigned so far. */
interface Expected {
  readonly assigned: DeepReadonly<Task>[];
  /** uids of the Tasks that are stopped. */
  readonly preempted: Set<string>;
}

/**
 * Plans what a changed Job would do to its tasks. It is a snapshot: robots and other tasks may change until the change is applied, and a
 * rollout moves on in steps.
 */
export function planJob(observed: JobPlanObservation): readonly PlannedTask[] {
  const { job, groups, tasks } = observed;
  const expected: Expected = { assigned: [], preempted: new Set() };
  const planned = job.spec.taskGroups.flatMap((template) => planGroup(observed, template, expected));
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

function planGroup(observed: JobPlanObservation, template: DeepReadonly<TaskGroupTemplate>, expected: Expected): PlannedTask[] {
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
      const outcome = isNew
        ? planCreation(observed, draft, expected)
        : planChange(observed, task, { planned: draft, changes: changesOf(task), expected });
      if (isNew && outcome.robot !== undefined) {
        const { robot: targetRobot, devices: targetDevices } = outcome;
        const placed = { targetRobot, ...(targetDevices !== undefined && { targetDevices }) };
        expected.assigned.push({ ...draft, spec: { ...draft.spec, ...placed } });
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

type Outcome = Pick<PlannedTask, "action" | "robot" | "why" | "devices" | "preempts">;

/** The robot of a task that is created, and the tasks that it stops; or why it waits. */
function planPlacement(
  { job, robots, allTasks }: JobPlanObservation,
  task: DeepReadonly<Task>,
  { assigned, preempted }: Expected,
): Pick<PlannedTask, "devices" | "preempts"> & { readonly robot?: string; readonly waits?: string } {
  const others = [...allTasks.filter(({ metadata }) => metadata.uid !== task.metadata.uid), ...assigned];
  // A task that is stopped has left its robot by then.
  const isThere = ({ task: { metadata } }: RobotUse): boolean => !preempted.has(metadata.uid ?? "");
  const usesOf = (robot: string): readonly RobotUse[] => usesAmong(others, robot).filter(isThere);
  const demand = demandOf(task, job);
  const copies = copiesAmong(task, job, others);
  const placement = decidePlacement(demand, robots, (robot) => loadFor(task, usesOf(robot)), copies);
  if (placement.kind === "placed") return { robot: placement.robot.metadata.name ?? "", devices: placement.devices };
  const isChosen = (other: DeepReadonly<Task>): boolean => allTasks.some((each) => isPreemptedBy(other, each));
  const scoreOf = preferenceScorer(demand, robots, copies);
  const preemption = decideTaskPreemption(task, demand, { robots, usesOf, isChosen, scoreOf });
  if (preemption === undefined) return { waits: placement.message };
  for (const { uid } of preemption.victims) preempted.add(uid);
  return { robot: preemption.robot, preempts: preemption.victims.map(({ name }) => name) };
}

function planCreation(observed: JobPlanObservation, task: DeepReadonly<Task>, expected: Expected): Outcome {
  const { robot, devices = [], preempts = [], waits } = planPlacement(observed, task, expected);
  if (robot === undefined) {
    return { action: "create", robot: task.spec.targetRobot, why: `it waits: ${waits ?? ""}` };
  }
  return {
    action: "create",
    robot,
    why: `the task does not exist${stops(preempts)}`,
    ...namesOf(preempts),
    ...(devices.length > 0 && { devices }),
  };
}

const stops = (preempts: readonly string[]): string => (preempts.length === 0 ? "" : `; it preempts ${preempts.join(", ")}`);

const namesOf = (preempts: readonly string[]): Pick<PlannedTask, "preempts"> => (preempts.length === 0 ? {} : { preempts });

function planChange(
  observed: JobPlanObservation,
  present: DeepReadonly<Task>,
  { planned, changes, expected }: { planned: DeepReadonly<Task>; changes: readonly string[]; expected: Expected },
): Outcome {
  const { job, robots, allTasks } = observed;
  const name = present.spec.targetRobot;
  if (changes.length === 0) return { action: "keep", robot: name, why: "" };
  const why = `changed: ${changes.join(", ")}`;
  if (!isLongRunning(job.spec.type)) {
    return { action: "ignore", robot: name, why: `${why}; a task of type ${job.spec.type ?? "batch"} keeps its template` };
  }
  const robot = robots.find(({ metadata }) => metadata.name === name);
  const others = allTasks.filter(({ metadata }) => metadata.uid !== present.metadata.uid);
  const demand = demandOf(planned, job);
  const load = (each: string): Load => loadFor(planned, usesAmong(others, each));
  const misfit = robot === undefined ? undefined : explainRobots(demand, [robot], load)[0];
  if (robot === undefined) return { action: "restart", robot: name, why };
  if (misfit === undefined) return { action: "restart", robot: name, why };
  if (robot.status?.phase !== "Online")
    return { action: "restart", robot: name, why: `${why}; follows when its robot returns` };
  const { robot: next, preempts = [], waits } = planPlacement(observed, planned, expected);
  const problem = `${why}; ${name} is ${misfit}`;
  if (next === undefined) return { action: "move", robot: undefined, why: `${problem}, and it waits: ${waits ?? ""}` };
  const action = next === name ? "restart" : "move";
  return { action, robot: next, why: `${problem}${stops(preempts)}`, ...namesOf(preempts) };
}
