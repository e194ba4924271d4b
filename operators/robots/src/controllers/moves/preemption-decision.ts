import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import type { Demand } from "../../placement/placement.ts";
import { decidePreemption, minPriorityDifference, type Occupant, type Preemption } from "../../placement/preemption.ts";
import { parseResourceRequest } from "../../placement/resource-request.ts";
import { countsFor, devicesOf, isWaiting, priorityOf, type RobotUse } from "../../placement/robot-use.ts";
import { confirmsStops, isPinned } from "./move-decision.ts";

/** What a preemption depends on. */
export interface PreemptionContext {
  readonly robots: readonly DeepReadonly<Robot>[];
  readonly usesOf: (robot: string) => readonly RobotUse[];
  /** Whether a waiting Task has chosen this one to be stopped. */
  readonly isChosen: (task: DeepReadonly<Task>) => boolean;
  readonly scoreOf: (robot: DeepReadonly<Robot>) => number;
}

/** The tasks that a Task without room stops; undefined if it may stop none, or if that would not help. */
export function decideTaskPreemption(
  task: DeepReadonly<Task>,
  demand: Demand,
  { robots, usesOf, isChosen, scoreOf }: PreemptionContext,
): Preemption | undefined {
  if (task.spec.preemptionPolicy !== "PreemptLowerPriority") return undefined;
  const current = task.status?.preemption;
  const occupantsOf = (robot: DeepReadonly<Robot>): readonly Occupant[] =>
    usesOf(robot.metadata.name ?? "")
      .filter((use) => countsFor(task, use))
      .map((use) => ({
        name: use.task.metadata.name ?? "",
        uid: use.task.metadata.uid ?? "",
        attempt: use.task.status?.attempt ?? 0,
        priority: priorityOf(use.task),
        ...parseResourceRequest(use.task.spec.resources),
        devices: devicesOf(use),
        kind: kindOf(task, use, robot, isChosen),
      }));
  return decidePreemption({ demand, robots, occupantsOf, scoreOf, ...(current === undefined ? {} : { current }) });
}

function kindOf(
  task: DeepReadonly<Task>,
  { task: other, kind }: RobotUse,
  robot: DeepReadonly<Robot>,
  isChosen: PreemptionContext["isChosen"],
): Occupant["kind"] {
  if (kind === "reserved") return "fixed";
  if (kind === "displaced") return other.status?.displaced?.stop === true ? "leaving" : "fixed";
  if (other.metadata.deletionTimestamp !== undefined) return "leaving";
  if (!mayPreempt(task, other) || !isStoppable(other) || !confirmsStops(robot)) return "fixed";
  const isOwnChoice = task.status?.preemption?.tasks.some(({ uid }) => uid === other.metadata.uid) === true;
  return !isOwnChoice && isChosen(other) ? "leaving" : "preemptible";
}

/** Whether a Task's priority permits that it stops another one. */
export function mayPreempt(task: DeepReadonly<Task>, other: DeepReadonly<Task>): boolean {
  return task.spec.preemptionPolicy === "PreemptLowerPriority" && priorityOf(task) - priorityOf(other) >= minPriorityDifference;
}

/** Whether the current attempt of a Task can be stopped for another Task, whatever the priorities. */
export function isStoppable(task: DeepReadonly<Task>): boolean {
  const { state, attempt, displaced } = task.status ?? {};
  const mayRun = state === "dispatching" || state === "running" || state === "exited";
  return mayRun && attempt !== undefined && displaced === undefined && !isPinned(task);
}

/** Whether a waiting Task has chosen to stop the current attempt of another one. */
export function isPreemptedBy(task: DeepReadonly<Task>, preemptor: DeepReadonly<Task>): boolean {
  const chosen = preemptor.status?.preemption;
  return (
    chosen !== undefined &&
    chosen.robot === task.spec.targetRobot &&
    preemptor.metadata.deletionTimestamp === undefined &&
    isWaiting(preemptor) &&
    chosen.tasks.some(({ uid, attempt }) => uid === task.metadata.uid && attempt === task.status?.attempt) &&
    mayPreempt(preemptor, task) &&
    isStoppable(task)
  );
}

/** Why a Task is stopped. */
export function preemptionText(task: DeepReadonly<Task>, preemptor: DeepReadonly<Task>): string {
  return `preempted by the task ${preemptor.metadata.name} (priority ${priorityOf(preemptor)}, this task ${priorityOf(task)})`;
}

/** What a preemption does, for messages. */
export function describePreemption({ robot, victims }: Preemption): string {
  const shown = victims.slice(0, 5).map(({ name, priority }) => `${name} (priority ${priority})`);
  const more = victims.length > shown.length ? ` and ${victims.length - shown.length} more` : "";
  return victims.length === 0
    ? `waiting for tasks that are leaving ${robot}`
    : `waits for room on ${robot}: stops ${shown.join(", ")}${more}`;
}
