import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { isPerRobot } from "../../api/job.ts";
import { labels } from "../../api/names.ts";
import type { Task } from "../../api/task.ts";
import type { TaskGroup } from "../../api/taskgroup.ts";
import { childName, claimOf, labelValue, unambiguousChildName } from "../../work/child-name.ts";
import { conditionsOf, hasCondition } from "../../work/conditions.ts";
import { copiesOf, keyOf, keyOfCopy, specOf } from "../../work/group-copies.ts";
import { addTallies, emptyTally, outcomeConditions, type Tally, tallyFields, workStateOf } from "../../work/tally.ts";
import { planRollout } from "./group-rollout.ts";
import type { TaskGroupObservation } from "./taskgroup-observation.ts";

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
  readonly requeueAfterMs?: number;
}

const noWrites: TaskGroupDecision = { create: [], remove: [] };

/**
 * Decides about a TaskGroup: which Tasks are missing, which are beyond `count`, and the status.
 *
 * **Guarantees**: a group that has ended does not change. A Task's name follows from the group, the task and the index of the
 * copy, so creating it is idempotent. A deleted Task is recreated while the group has not ended. A group of type `system` or `sysbatch` has
 * one copy for every eligible robot instead of `count` copies. `system` never completes; `sysbatch` is running again when a robot joins.
 * Tasks of another revision are replaced as {@link decideRollout} says.
 */
export function decideTaskGroup(observation: TaskGroupObservation): TaskGroupDecision {
  const { group, tasks, taskNamed, robots, now } = observation;
  if (group.metadata.deletionTimestamp !== undefined) return noWrites;
  const before = group.status?.state;
  const isFinal = !isPerRobot(group.spec.type) && group.spec.revision === undefined;
  if (isFinal && (before === "completed" || before === "failed")) return noWrites;

  const groupName = group.metadata.name ?? "";
  const owner = { kind: "TaskGroup", name: groupName, uid: group.metadata.uid ?? "" };
  const present = new Map(tasks.map((task) => [keyOf(task), task]));
  const create: TaskDraft[] = [];
  const wanted = new Set<string>();
  let tally: Tally = emptyTally;
  const copies = copiesOf(group.spec, robots);
  const rollout = planRollout(observation, copies, present);
  for (const copy of copies) {
    const { definition, index } = copy;
    const key = keyOfCopy(copy);
    wanted.add(key);
    const task = present.get(key);
    if (task === undefined && rollout?.postpone.has(key) !== true) {
      const parts = [groupName, definition.name, index];
      const claim = claimOf(taskNamed(childName(...parts)), owner);
      if (claim === "free" || claim === "foreign") {
        const name = claim === "free" ? childName(...parts) : unambiguousChildName(...parts);
        const spec = rollout?.specOf(copy) ?? specOf(group, definition, copy.robot);
        create.push({ name, labels: taskLabels(group, index), spec });
      }
    }
    tally = addTallies(tally, tallyOfTask(task));
  }
  const surplus = tasks.filter(
    (task) => !wanted.has(keyOf(task)) && task.metadata.deletionTimestamp === undefined && !isResult(group, task),
  );
  const stopped = (rollout?.stop ?? []).flatMap((key) => present.get(key) ?? []);
  const ordered = rollout?.orderSurplus(surplus) ?? surplus;
  const remove = [...stopped, ...ordered.slice(0, rollout?.removeSurplus)].map((task) => task.metadata.name ?? "");

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
    ...(rollout === undefined ? {} : { rollout: rollout.status }),
    conditions: conditionsOf(
      outcomeConditions(tally, state, generation, hasCondition(group, "Lost")),
      group.status?.conditions,
      now,
    ),
  };
  return {
    create,
    remove,
    ...(jsonEquals(status, group.status) ? {} : { status }),
    ...(rollout?.requeueAfterMs === undefined ? {} : { requeueAfterMs: rollout.requeueAfterMs }),
  };
}

/** Whether a Task is the result of a robot that no longer matches, which is kept. */
function isResult({ spec }: DeepReadonly<TaskGroup>, { status }: DeepReadonly<Task>): boolean {
  return spec.type === "sysbatch" && (status?.state === "completed" || status?.state === "failed");
}

function taskLabels(group: DeepReadonly<TaskGroup>, index: string): Record<string, string> {
  return {
    [labels.job]: labelValue(group.spec.jobName),
    [labels.taskGroup]: labelValue(group.metadata.name ?? ""),
    [labels.taskIndex]: index,
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
