import type { Condition, DeepReadonly } from "@keelson/api-machinery";
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
export function ownedStatus(task: DeepReadonly<Task>): TaskStatus {
  const { status } = task;
  const own: Record<string, unknown> = {};
  for (const field of ownedFields) {
    if (status?.[field] !== undefined) own[field] = status[field];
  }
  const scheduled = status?.conditions?.filter((condition) => condition.type === "Scheduled");
  if (scheduled && scheduled.length > 0) own.conditions = scheduled;
  return own as TaskStatus;
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
    conditions: scheduledCondition(task, "True", "RobotChosen", `bound to the robot ${robot}`, now),
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
        conditions: scheduledCondition(task, "False", "Unschedulable", decision.message, now),
      };
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

function scheduledCondition(
  task: DeepReadonly<Task>,
  status: "True" | "False",
  reason: string,
  message: string,
  now: number,
): Condition[] {
  const observedGeneration = task.metadata.generation ?? 0;
  return conditionsOf([{ type: "Scheduled", status, observedGeneration, reason, message }], task.status?.conditions, now);
}
