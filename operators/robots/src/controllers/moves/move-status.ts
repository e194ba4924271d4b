import type { DeepReadonly } from "@keelson/api-machinery";
import type { Task } from "../../api/task.ts";
import { hasCondition } from "../../work/conditions.ts";
import { withDevices } from "./attempt-devices.ts";
import type { MoveCount } from "./move-decision.ts";
import { ownedStatus, type TaskStatus, withConditions } from "../groups/owned-task-status.ts";
import type { TaskDecision } from "../tasks/task-decision.ts";

/** Status fields that count moves. */
export const moveFields = ({ windowStartMs, movesInWindow, consecutive }: MoveCount): TaskStatus => ({
  moveWindowStart: new Date(windowStartMs).toISOString(),
  movesInWindow,
  consecutiveMoves: consecutive,
});

/** The status of a Task that was taken off its robot. From this write on, the attempt's reports and lease requests are rejected. */
export function movedStatus(
  task: DeepReadonly<Task>,
  { from, why, count, displaced, isPreempted = false }: TaskDecision & { readonly kind: "move" },
  now: number,
): TaskStatus {
  const { restartAt: _restart, moveAt: _move, adopted: _adopted, ...before } = ownedStatus(task);
  const { restartsInWindow: _count, restartWindowStart: _window, ...others } = before;
  // A preemption says nothing about the program, so its restarts still count.
  const kept = isPreempted ? before : others;
  const message = `moved from ${from}: ${why}`;
  const reason = isPreempted ? "Preempted" : "Moved";
  return {
    ...kept,
    state: "pending",
    message,
    reason,
    movedFrom: from,
    moves: (task.status?.moves ?? 0) + 1,
    ...(count === undefined ? {} : moveFields(count)),
    ...(displaced === undefined
      ? {}
      : { displaced: { ...withDevices(task, displaced), ...(displaced.stop === undefined ? {} : { stop: displaced.stop }) } }),
    conditions: withConditions(
      task,
      {
        Scheduled: { status: "False", reason, message },
        ...(hasCondition(task, "Lost") ? { Lost: { status: "False", reason, message } } : {}),
        ...(isPreempted ? { Preempted: { status: "True", reason: "HigherPriority", message } } : {}),
      },
      now,
    ),
  };
}

/** The status after a decision about a displaced attempt. */
export function reconciledStatus(
  task: DeepReadonly<Task>,
  displaced: (TaskDecision & { readonly kind: "reconcile" })["displaced"],
  now: number,
): TaskStatus {
  const { displaced: before, ...rest } = ownedStatus(task);
  switch (displaced.kind) {
    case "forget":
      return rest;
    case "stop": {
      const { adopted, ...others } = rest;
      const { attempt = before } = displaced;
      if (attempt === undefined) return rest;
      const kept = displaced.attempt === undefined && adopted !== undefined ? { adopted } : {};
      return { ...others, ...kept, displaced: { ...withDevices(task, attempt), stop: true } };
    }
    case "adopt": {
      const { robot } = displaced.original;
      const { displaced: _, ...moved } = movedStatus(
        task,
        { kind: "move", from: task.spec.targetRobot ?? "", why: `${robot} has returned, and its attempt is kept` },
        now,
      );
      return {
        ...moved,
        adopted: withDevices(task, displaced.original),
        ...(displaced.stop === undefined ? {} : { displaced: { ...withDevices(task, displaced.stop), stop: true } }),
      };
    }
  }
}
