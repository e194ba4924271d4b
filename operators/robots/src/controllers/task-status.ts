import { type Condition, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Task } from "../api/task.ts";
import { conditionsOf } from "../work/conditions.ts";
import type { TaskDecision } from "./task-decision.ts";

/** Status of a Task. */
export type TaskStatus = NonNullable<Task["status"]>;

/** Decisions that are written as a status. */
export type StatusDecision = Exclude<TaskDecision, { readonly kind: "leave" | "bind" | "release" }>;

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
  "observedGeneration",
] as const;

/** The part of a Task's status that the task controller owns. Server-side apply must repeat all of it. */
function ownedStatus(task: DeepReadonly<Task>): TaskStatus {
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

/** The status of a Task whose attempt is being dispatched. */
export function dispatchedStatus(
  task: DeepReadonly<Task>,
  { robot, attempt, isRestart }: { readonly robot: string; readonly attempt: number; readonly isRestart: boolean },
  now: number,
): TaskStatus {
  const { restartAt: _done, reason: _reason, ...before } = ownedStatus(task);
  const at = new Date(now).toISOString();
  return {
    ...before,
    state: "dispatching",
    message: isRestart ? `attempt ${attempt}: dispatching to ${robot}` : `Dispatching to ${robot}`,
    attempt,
    // Reports count from 1 in every attempt.
    seq: 0,
    dispatchedAt: at,
    restartCount: (task.status?.restartCount ?? 0) + (isRestart ? 1 : 0),
    ...(isRestart ? { lastRestartTime: at } : {}),
    observedGeneration: task.metadata.generation ?? 0,
    conditions: withCondition(
      task,
      "Scheduled",
      { status: "True", reason: "RobotChosen", message: `bound to the robot ${robot}` },
      now,
    ),
  };
}

/** The status that follows from a decision. */
export function statusAfter(task: DeepReadonly<Task>, decision: StatusDecision, now: number): TaskStatus {
  const before = ownedStatus(task);
  const observedGeneration = task.metadata.generation ?? 0;
  switch (decision.kind) {
    case "wait":
      return {
        ...before,
        state: "pending",
        message: decision.message,
        reason: "Unschedulable",
        observedGeneration,
        conditions: withCondition(
          task,
          "Scheduled",
          { status: "False", reason: "Unschedulable", message: decision.message },
          now,
        ),
      };
    case "lose":
      return {
        ...before,
        message: decision.message,
        reason: decision.reason,
        conditions: withCondition(
          task,
          "Lost",
          { status: "True", reason: decision.reason, message: decision.message },
          Date.parse(decision.since),
        ),
      };
    case "recover": {
      const message = `${decision.robot} is reporting again`;
      return {
        ...before,
        message,
        reason: "RobotReporting",
        conditions: withCondition(task, "Lost", { status: "False", reason: "RobotReporting", message }, now),
      };
    }
    case "dispatch":
      return dispatchedStatus(task, decision, now);
    case "plan-restart": {
      const at = new Date(decision.atMs).toISOString();
      return {
        ...before,
        message: `${task.status?.message ?? "failed"}; restarting at ${at}`,
        reason: "RestartPlanned",
        restartAt: at,
        restartWindowStart: new Date(decision.windowStartMs).toISOString(),
        restartsInWindow: decision.restartsInWindow,
      };
    }
    case "fail":
      return { ...before, state: "failed", message: decision.message, reason: decision.reason, observedGeneration };
  }
}

/** The owned conditions with one of them replaced. */
function withCondition(
  task: DeepReadonly<Task>,
  type: "Scheduled" | "Lost",
  claim: { readonly status: "True" | "False"; readonly reason: string; readonly message: string },
  now: number,
): Condition[] {
  const observedGeneration = task.metadata.generation ?? 0;
  const others = (ownedStatus(task).conditions ?? []).filter((condition) => condition.type !== type);
  return [...others, ...conditionsOf([{ type, observedGeneration, ...claim }], task.status?.conditions, now)];
}
