import { type Condition, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import { conditionsOf } from "../../work/conditions.ts";

/** Status of a Task. */
export type TaskStatus = NonNullable<Task["status"]>;

const ownedFields = [
  "state",
  "message",
  "reason",
  "attempt",
  "dispatchedAt",
  "restartCount",
  "lastRestartTime",
  "restartAt",
  "restartWindowStart",
  "restartsInWindow",
  "moves",
  "consecutiveMoves",
  "movesInWindow",
  "moveWindowStart",
  "moveAt",
  "movedFrom",
  "lease",
  "displaced",
  "adopted",
  "preemption",
  "observedGeneration",
] as const;

type OwnedCondition = "Scheduled" | "Lost" | "Preempted";
const ownedConditions: readonly string[] = ["Scheduled", "Lost", "Preempted"] satisfies OwnedCondition[];

/** The part of a Task's status that the task controller owns. Server-side apply must repeat all of it. */
export function ownedStatus(task: DeepReadonly<Task>): TaskStatus {
  const { status } = task;
  const own: Record<string, unknown> = {};
  for (const field of ownedFields) {
    if (status?.[field] !== undefined) own[field] = status[field];
  }
  const conditions = status?.conditions?.filter(({ type }) => ownedConditions.includes(type));
  if (conditions && conditions.length > 0) own.conditions = conditions;
  return own as TaskStatus;
}

/** Whether a Task already has the status that the controller would write. */
export function hasStatus(task: DeepReadonly<Task>, status: TaskStatus): boolean {
  return jsonEquals(status, ownedStatus(task));
}

/** The owned conditions with some of them replaced. */
export function withConditions(
  task: DeepReadonly<Task>,
  claims: Readonly<Partial<Record<OwnedCondition, ConditionClaim>>>,
  now: number,
): Condition[] {
  const observedGeneration = task.metadata.generation ?? 0;
  const others = (ownedStatus(task).conditions ?? []).filter(({ type }) => !Object.hasOwn(claims, type));
  const claimed = Object.entries(claims).map(([type, claim]) => ({ type, observedGeneration, ...claim }));
  return [...others, ...conditionsOf(claimed, task.status?.conditions, now)];
}

/** What a condition says. */
interface ConditionClaim {
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}
