import type { DeepReadonly } from "@keelson/api-machinery";
import { pinnedAnnotation } from "../../api/names.ts";
import type { Task } from "../../api/task.ts";
import type { Preemption } from "../../placement/preemption.ts";
import { disconnectPolicyOf } from "../../work/disconnect-policy.ts";
import { hasCondition } from "../../work/conditions.ts";
import { pinnedReason } from "../moves/move-decision.ts";
import { movedStatus, moveFields, reconciledStatus } from "../moves/move-status.ts";
import { ownedStatus, type TaskStatus, withConditions } from "../groups/owned-task-status.ts";
import { describePreemption } from "../moves/preemption-decision.ts";
import type { TaskDecision } from "./task-decision.ts";

/** Decisions that are written as a status. */
export type StatusDecision = Exclude<TaskDecision, { readonly kind: "leave" | "bind" | "dispatch" | "release" }>;

/** An attempt to dispatch. */
export interface DispatchedAttempt {
  readonly robot: string;
  readonly attempt: number;
  readonly isRestart: boolean;
  /** Whether the robot's agent runs the attempt only while it holds a lease. */
  readonly isLeased: boolean;
}

function wasPinned({ metadata, status }: DeepReadonly<Task>): boolean {
  if (metadata.annotations?.[pinnedAnnotation] === "true") return true;
  return status?.conditions?.find(({ type }) => type === "Scheduled")?.reason === pinnedReason;
}

/** The robot keeps the duration until the attempt ends, even if spec.disconnect changes. */
function leaseDuration({ spec }: DeepReadonly<Task>): { readonly durationMs?: number } {
  const policy = disconnectPolicyOf(spec);
  return policy === undefined ? {} : { durationMs: Math.ceil(policy.lostAfterMs) };
}

/** The status of a Task whose attempt is being dispatched. */
export function dispatchedStatus(
  task: DeepReadonly<Task>,
  { robot, attempt, isRestart, isLeased }: DispatchedAttempt,
  now: number,
): TaskStatus {
  const { restartAt: _done, reason: _reason, lease: _lease, preemption: _room, adopted, ...before } = ownedStatus(task);
  const at = new Date(now).toISOString();
  const isAdoption = !isRestart && adopted?.robot === robot;
  return {
    ...before,
    // The bridge grants nothing before it has recorded a later time.
    ...(isLeased ? { lease: { attempt, grantsUntil: at, ...leaseDuration(task) } } : {}),
    ...(isAdoption ? { adopted } : {}),
    state: "dispatching",
    message: isRestart ? `attempt ${attempt}: dispatching to ${robot}` : `Dispatching to ${robot}`,
    attempt,
    // Reports count from 1 in every attempt.
    seq: 0,
    dispatchedAt: at,
    restartCount: (task.status?.restartCount ?? 0) + (isRestart ? 1 : 0),
    ...(isRestart ? { lastRestartTime: at } : {}),
    observedGeneration: task.metadata.generation ?? 0,
    conditions: withConditions(
      task,
      {
        Scheduled: {
          status: "True",
          reason: wasPinned(task) ? pinnedReason : "RobotChosen",
          message: `bound to the robot ${robot}`,
        },
        ...(hasCondition(task, "Preempted")
          ? { Preempted: { status: "False", reason: "RobotChosen", message: `placed on the robot ${robot}` } }
          : {}),
      },
      now,
    ),
  };
}

/** The status that follows from a decision. */
export function statusAfter(task: DeepReadonly<Task>, decision: StatusDecision, now: number): TaskStatus {
  switch (decision.kind) {
    case "wait":
      return waitingStatus(task, decision.message, now);
    case "wait-for-stop":
      return stoppingStatus(task, decision.message, now);
    case "preempt":
      return preemptingStatus(task, decision.preemption, now);
    case "lose":
      return lostStatus(task, decision);
    case "recover":
      return recoveredStatus(task, decision.robot, now);
    case "plan-move":
      return movePlannedStatus(task, decision);
    case "move":
      return movedStatus(task, decision, now);
    case "reconcile":
      return reconciledStatus(task, decision.displaced, now);
    case "plan-restart":
      return restartPlannedStatus(task, decision);
    case "fail":
      return {
        ...withoutReservation(task),
        state: "failed",
        message: decision.message,
        reason: decision.reason,
        observedGeneration: task.metadata.generation ?? 0,
      };
  }
}

type DecisionOf<Kind extends StatusDecision["kind"]> = StatusDecision & { readonly kind: Kind };

function waitingStatus(task: DeepReadonly<Task>, message: string, now: number): TaskStatus {
  return {
    ...withoutReservation(task),
    state: "pending",
    message,
    reason: "Unschedulable",
    observedGeneration: task.metadata.generation ?? 0,
    conditions: withConditions(task, { Scheduled: { status: "False", reason: "Unschedulable", message } }, now),
  };
}

/** Keeps the reason for which the Task left its robot. */
function stoppingStatus(task: DeepReadonly<Task>, message: string, now: number): TaskStatus {
  const { reason = "Moved" } = task.status ?? {};
  return {
    ...waitingStatus(task, message, now),
    reason,
    conditions: withConditions(task, { Scheduled: { status: "False", reason, message } }, now),
  };
}

/** The intent is stored before anything is stopped: each victim stops because of it, whatever happens to this controller. */
function preemptingStatus(task: DeepReadonly<Task>, preemption: Preemption, now: number): TaskStatus {
  const message = describePreemption(preemption);
  const { robot, victims } = preemption;
  const current = task.status?.preemption;
  // Victims that have left the robot stay listed, so that the status changes only with the choice.
  const isUnchanged =
    current?.robot === robot &&
    victims.every(({ uid, attempt }) => isAmong(current.tasks, uid, attempt)) &&
    current.tasks.length > 0;
  const tasks = isUnchanged ? current.tasks : victims.map(({ name, uid, attempt }) => ({ name, uid, attempt }));
  const text = isUnchanged ? (task.status?.message ?? message) : message;
  return {
    ...withoutReservation(task),
    state: "pending",
    message: text,
    reason: "Preempting",
    preemption: { robot, tasks: [...tasks] },
    observedGeneration: task.metadata.generation ?? 0,
    conditions: withConditions(task, { Scheduled: { status: "False", reason: "Preempting", message: text } }, now),
  };
}

const isAmong = (tasks: readonly { readonly uid: string; readonly attempt: number }[], uid: string, attempt: number): boolean =>
  tasks.some((each) => each.uid === uid && each.attempt === attempt);

function withoutReservation(task: DeepReadonly<Task>): TaskStatus {
  const { preemption: _, ...rest } = ownedStatus(task);
  return rest;
}

function lostStatus(task: DeepReadonly<Task>, { reason, message, since }: DecisionOf<"lose">): TaskStatus {
  return {
    ...ownedStatus(task),
    message,
    reason,
    conditions: withConditions(task, { Lost: { status: "True", reason, message } }, Date.parse(since)),
  };
}

function recoveredStatus(task: DeepReadonly<Task>, robot: string, now: number): TaskStatus {
  const message = `${robot} is reporting again`;
  const reason = "RobotReporting";
  return {
    ...ownedStatus(task),
    message,
    reason,
    conditions: withConditions(task, { Lost: { status: "False", reason, message } }, now),
  };
}

function restartPlannedStatus(
  task: DeepReadonly<Task>,
  { atMs, windowStartMs, restartsInWindow }: DecisionOf<"plan-restart">,
): TaskStatus {
  const at = new Date(atMs).toISOString();
  return {
    ...ownedStatus(task),
    message: `${task.status?.message ?? "failed"}; restarting at ${at}`,
    reason: "RestartPlanned",
    restartAt: at,
    restartWindowStart: new Date(windowStartMs).toISOString(),
    restartsInWindow,
  };
}

function movePlannedStatus(task: DeepReadonly<Task>, { atMs, message, count }: DecisionOf<"plan-move">): TaskStatus {
  const at = new Date(atMs).toISOString();
  return {
    ...ownedStatus(task),
    ...moveFields(count),
    message: `${message}; moves to another robot at ${at}`,
    reason: "MovePlanned",
    moveAt: at,
  };
}
