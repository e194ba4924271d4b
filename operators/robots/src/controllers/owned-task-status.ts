import { type Condition, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Task } from "../api/task.ts";
import { conditionsOf } from "../work/conditions.ts";

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
  "observedGeneration",
] as const;

/** The part of a Task's status that the task controller owns. Server-side apply must repeat all of it. */
export function ownedStatus(task: DeepReadonly<Task>): TaskStatus {
  const { status } = task;
  const own: Record<string, unknown> = {};
  for (const field of ownedFields) {
    if (status?.[field] !== undefined) own[field] = status[field];
  }
  const conditions = status?.conditions?.filter(({ type }) => type === "Scheduled" || type === "Lost");
  if (conditions && conditions.length > 0) own.conditions = conditions;
  return own as TaskStatus;
}

/** Whether a Task already has the status that the controller would write. */
export function hasStatus(task: DeepReadonly<Task>, status: TaskStatus): boolean {
  return jsonEquals(status, ownedStatus(task));
}

/** The owned conditions with one of them replaced. */
export function withCondition(
  task: DeepReadonly<Task>,
  type: "Scheduled" | "Lost",
  claim: { readonly status: "True" | "False"; readonly reason: string; readonly message: string },
  now: number,
): Condition[] {
  const observedGeneration = task.metadata.generation ?? 0;
  const others = (ownedStatus(task).conditions ?? []).filter((condition) => condition.type !== type);
  return [...others, ...conditionsOf([{ type, observedGeneration, ...claim }], task.status?.conditions, now)];
}
