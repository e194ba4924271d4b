import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { isPerRobot } from "../api/job.ts";
import { labels } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import type { TaskDefinition } from "../api/task-definition.ts";
import type { TaskGroup } from "../api/taskgroup.ts";
import { isEligible } from "../placement/placement.ts";
import { childName, claimOf, unambiguousChildName } from "../work/child-name.ts";
import { conditionsOf, hasCondition } from "../work/conditions.ts";
import { labelValue } from "./job-decision.ts";
import { addTallies, emptyTally, outcomeConditions, type Tally, tallyFields, workStateOf } from "../work/tally.ts";

/** Input of {@link decideTaskGroup}. */
export interface TaskGroupObservation {
  readonly group: DeepReadonly<TaskGroup>;
  /** The Tasks that the group owns. */
  readonly tasks: readonly DeepReadonly<Task>[];
  /** Looks up any Task of the namespace by name. */
  readonly taskNamed: (name: string) => DeepReadonly<Task> | undefined;
  /** The robots of the namespace. Used only for a group of type `system` or `sysbatch`. */
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly now: number;
}

/** A Task to apply. */
export interface TaskDraft {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: DeepReadonly<Task["spec"]>;
}

/** Writes: Tasks to create, Tasks to delete, then the status (absent: unchanged). */
export interface TaskGroupDecision {
  readonly create: readonly TaskDraft[];
  /** Names. */
  readonly remove: readonly string[];
  readonly status?: NonNullable<TaskGroup["status"]>;
}

const noWrites: TaskGroupDecision = { create: [], remove: [] };

/**
 * Decides about a TaskGroup: which Tasks are missing, which are beyond `count`, and the status.
 *
 * **Guarantees**: a group that has ended does not change. A Task's name follows from the group, the task and the index of the
 * copy, so creating it is idempotent. A deleted Task is recreated while the group has not ended. A group of type `system` or `sysbatch` has
 * one copy for every eligible robot instead of `count` copies. `system` never completes; `sysbatch` is running again when a robot joins.
 */
export function decideTaskGroup({ group, tasks, taskNamed, robots, now }: TaskGroupObservation): TaskGroupDecision {
  if (group.metadata.deletionTimestamp !== undefined) return noWrites;
  const before = group.status?.state;
  if (!isPerRobot(group.spec.type) && (before === "completed" || before === "failed")) return noWrites;

  const groupName = group.metadata.name ?? "";
  const owner = { kind: "TaskGroup", name: groupName, uid: group.metadata.uid ?? "" };
  const present = new Map(tasks.map((task) => [keyOf(task), task]));
  const create: TaskDraft[] = [];
  const wanted = new Set<string>();
  let tally: Tally = emptyTally;
  for (const { definition, index, robot } of copiesOf(group, robots)) {
    const key = `${definition.name}/${index}`;
    wanted.add(key);
    const task = present.get(key);
    if (task === undefined) {
      const parts = [groupName, definition.name, index];
      const claim = claimOf(taskNamed(childName(...parts)), owner);
      if (claim === "free" || claim === "foreign") {
        const name = claim === "free" ? childName(...parts) : unambiguousChildName(...parts);
        create.push({ name, labels: taskLabels(group, index), spec: specOf(group, definition, robot) });
      }
    }
    tally = addTallies(tally, tallyOfTask(task));
  }
  const remove = tasks
    .filter((task) => !wanted.has(keyOf(task)) && task.metadata.deletionTimestamp === undefined && !isResult(group, task))
    .map((task) => task.metadata.name ?? "");

  const outcome = workStateOf(tally);
  // More robots may join, so a system group does not complete. It has failed while every one of its tasks has.
  const state = group.spec.type === "system" && outcome === "completed" ? "running" : outcome;
  const generation = group.metadata.generation ?? 0;
  const { startedAt, completedAt, ...fields } = tallyFields(tally, state);
  const status: NonNullable<TaskGroup["status"]> = {
    state,
    observedGeneration: generation,
    ...fields,
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
    conditions: conditionsOf(
      outcomeConditions(tally, state, generation, hasCondition(group, "Lost")),
      group.status?.conditions,
      now,
    ),
  };
  return { create, remove, ...(jsonEquals(status, group.status) ? {} : { status }) };
}

/** Whether a Task is the result of a robot that no longer matches, which is kept. */
function isResult({ spec }: DeepReadonly<TaskGroup>, { status }: DeepReadonly<Task>): boolean {
  return spec.type === "sysbatch" && (status?.state === "completed" || status?.state === "failed");
}

interface Copy {
  readonly definition: DeepReadonly<TaskDefinition>;
  /** Index of the copy, or the name of its robot in a group with one copy per robot. */
  readonly index: string;
  /** The robot that the Task is pinned to. */
  readonly robot?: string;
}

/** The Tasks that a group should have. */
function copiesOf(group: DeepReadonly<TaskGroup>, robots: readonly DeepReadonly<Robot>[]): readonly Copy[] {
  const { spec } = group;
  if (!isPerRobot(spec.type)) {
    return Array.from({ length: spec.count }, (_, index) => String(index)).flatMap((index) =>
      spec.tasks.map((definition) => ({ definition, index })),
    );
  }
  return spec.tasks.flatMap((definition) => {
    const requirements = {
      selector: spec.robotSelector ?? {},
      constraints: constraintsOf(group, definition),
      driver: definition.driver,
    };
    return robots
      .filter((robot) => isEligible(requirements, robot))
      .map((robot) => ({ definition, index: robot.metadata.name ?? "", robot: robot.metadata.name ?? "" }));
  });
}

function constraintsOf(group: DeepReadonly<TaskGroup>, definition: DeepReadonly<TaskDefinition>) {
  return [...(group.spec.constraints ?? []), ...(definition.constraints ?? [])];
}

/** Identifies a Task within its group by task and index. It does not depend on the Task's name. */
function keyOf(task: DeepReadonly<Task>): string {
  return `${task.spec.name}/${task.metadata.labels?.[labels.taskIndex] ?? ""}`;
}

function taskLabels(group: DeepReadonly<TaskGroup>, index: string): Record<string, string> {
  return {
    [labels.job]: labelValue(group.spec.jobName),
    [labels.taskGroup]: labelValue(group.metadata.name ?? ""),
    [labels.taskIndex]: index,
  };
}

function specOf(
  group: DeepReadonly<TaskGroup>,
  definition: DeepReadonly<TaskDefinition>,
  robot: string | undefined,
): DeepReadonly<Task["spec"]> {
  const { robotSelector, priority, type, reschedulePolicy, disconnect, meta, payload } = group.spec;
  const restartPolicy = definition.restartPolicy ?? group.spec.restartPolicy;
  const constraints = constraintsOf(group, definition);
  return {
    ...definition,
    jobName: group.spec.jobName,
    taskGroupName: group.metadata.name ?? "",
    ...(restartPolicy === undefined ? {} : { restartPolicy }),
    ...(reschedulePolicy === undefined ? {} : { reschedulePolicy }),
    ...(disconnect === undefined ? {} : { disconnect }),
    ...(meta === undefined ? {} : { meta }),
    ...(payload === undefined || definition.dispatchPayload === undefined ? {} : { payload }),
    ...(constraints.length === 0 ? {} : { constraints }),
    ...(type === undefined ? {} : { type }),
    ...(robot === undefined ? {} : { targetRobot: robot }),
    ...(robotSelector === undefined ? {} : { robotSelector }),
    ...(priority === undefined ? {} : { priority }),
  };
}

function tallyOfTask(task: DeepReadonly<Task> | undefined): Tally {
  const status = task?.status;
  const started = status?.startedAt === undefined ? {} : { startedAt: status.startedAt };
  const finished = status?.finishedAt === undefined ? {} : { completedAt: status.finishedAt };
  const lostCondition = status?.conditions?.find(({ type, status: isLost }) => type === "Lost" && isLost === "True");
  const lost = lostCondition === undefined ? {} : { lost: 1, lostSince: lostCondition.lastTransitionTime };
  switch (status?.state) {
    case "running":
      return { ...emptyTally, total: 1, running: 1, ...started, ...lost };
    case "dispatching":
      return { ...emptyTally, total: 1, pending: 1, ...started, ...lost };
    case "completed":
      return { ...emptyTally, total: 1, succeeded: 1, ...started, ...finished };
    case "failed":
      return { ...emptyTally, total: 1, failed: 1, ...started, ...finished };
    default:
      return { ...emptyTally, total: 1, pending: 1, ...started };
  }
}
