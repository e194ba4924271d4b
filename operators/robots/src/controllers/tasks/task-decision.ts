import type { DeepReadonly } from "@keelson/api-machinery";
import type { AssignedDevices } from "../../api/device.ts";
import type { Job } from "../../api/job.ts";
import { agentFinalizer } from "../../api/names.ts";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { wholeSeconds } from "../../work/conditions.ts";
import {
  type DisplacedDecision,
  decideDisplaced,
  decideFailureMove,
  decideLoss,
  drainAtMs,
  type LossDecision,
  type MoveCount,
  offlineSince,
  type RobotAttempt,
} from "../moves/move-decision.ts";
import { demandOf } from "../../placement/demand.ts";
import { decidePlacement, preferenceScorer } from "../../placement/placement.ts";
import type { Preemption } from "../../placement/preemption.ts";
import { loadFor, type RobotUse } from "../../placement/robot-use.ts";
import type { Copies } from "../../placement/spread.ts";
import { invalidPlacement } from "./invalid-placement.ts";
import { decideRestart } from "../../work/restart-policy.ts";
import { decideDeletion } from "../moves/deletion-decision.ts";
import { decideTaskPreemption, isPreemptedBy, preemptionText } from "../moves/preemption-decision.ts";

/** Reason of a Task that its robot stopped because its lease expired. */
const leaseExpiredReason = "LeaseExpired";

/** Maximum size of a Task that is sent to a robot: the broker's 256 KiB less the envelope. */
const maxTaskBytes = 240 * 1024;

/** Input of {@link decideTask}. */
export interface TaskObservation {
  readonly task: DeepReadonly<Task>;
  /** The Job that `spec.jobName` names, if it exists. */
  readonly job: DeepReadonly<Job> | undefined;
  /** The robots of the Task's namespace. */
  readonly robots: readonly DeepReadonly<Robot>[];
  /** Uses of a robot by other Tasks, including those that were bound a moment ago. */
  readonly usesOf: (robot: string) => readonly RobotUse[];
  /** Waiting Tasks that have chosen to stop a Task. */
  readonly preemptorsOf: (task: DeepReadonly<Task>) => readonly DeepReadonly<Task>[];
  /** Counts the copies of the Task, including those that were bound a moment ago. It lists all Tasks of the Job. */
  readonly copies: (job: DeepReadonly<Job> | undefined) => Copies;
  readonly now: number;
}

/** What to do with a Task. */
export type TaskDecision =
  /** Nothing until something changes or this time has passed. */
  | { readonly kind: "leave"; readonly requeueAfterMs?: number }
  /** No robot fits. */
  | { readonly kind: "wait"; readonly message: string; readonly requeueAfterMs?: number }
  /** Its last robot has not confirmed yet that it stopped the program. */
  | { readonly kind: "wait-for-stop"; readonly message: string; readonly requeueAfterMs?: number }
  /** No robot has room. Reserve the room of tasks with a lower priority, which are stopped. */
  | { readonly kind: "preempt"; readonly preemption: Preemption }
  /** Bind the Task to this robot, then dispatch it. */
  | {
      readonly kind: "bind";
      readonly robot: string;
      readonly isPinned: boolean;
      /** The devices that it gets. Absent: none. */
      readonly devices?: AssignedDevices;
    }
  /** The Task is bound. Have the bridge send this attempt. */
  | { readonly kind: "dispatch"; readonly robot: string; readonly attempt: number; readonly isRestart: boolean }
  /** The attempt failed. The next one starts at this time. */
  | { readonly kind: "plan-restart"; readonly atMs: number; readonly windowStartMs: number; readonly restartsInWindow: number }
  /** The robot has stopped reporting, so the state of the Task's program is unknown. */
  | { readonly kind: "lose"; readonly since: string; readonly reason: string; readonly message: string }
  /** The restart policy is used up. The Task moves to another robot at this time. */
  | { readonly kind: "plan-move"; readonly atMs: number; readonly message: string; readonly count: MoveCount }
  /** Take the Task off its robot and look for another one. `count` is absent if a move was planned before. */
  | {
      readonly kind: "move";
      readonly from: string;
      readonly why: string;
      readonly count?: MoveCount;
      readonly displaced?: RobotAttempt;
      /** Whether a task of higher priority takes its room. */
      readonly isPreempted?: boolean;
    }
  /** Two attempts exist since the robot of the first one has returned. */
  | { readonly kind: "reconcile"; readonly displaced: Exclude<DisplacedDecision, { readonly kind: "wait" }> }
  /** The robot of a lost Task is reporting again. */
  | { readonly kind: "recover"; readonly robot: string }
  /** The Task has failed permanently. */
  | { readonly kind: "fail"; readonly reason: string; readonly message: string }
  /** Remove the finalizer. */
  | { readonly kind: "release"; readonly why: string };

/**
 * Decides about a Task.
 *
 * **Guarantees**: `completed` and `failed` are final. A Task leaves its robot only if its last attempt failed there, or under its
 * disconnect policy ({@link decideLoss}). Every attempt has its own number, which is recorded before it is dispatched. A deleted Task
 * waits for its robots ({@link decideDeletion}).
 */
export function decideTask(observed: TaskObservation): TaskDecision {
  const { task, robots, now } = observed;
  if (task.metadata.deletionTimestamp !== undefined) return decideDeletion(task, robots, now);
  const displaced = decideDisplaced(task, robots, now);
  if (displaced !== undefined && displaced.kind !== "wait") return { kind: "reconcile", displaced };
  switch (task.status?.state ?? "") {
    case "completed":
    case "failed":
      return { kind: "leave" };
    case "running":
    case "dispatching":
      return decideStop(observed) ?? decidePresence(task, robots, now);
    case "exited":
      return decideAfterExit(observed);
    default:
      return decideStart(observed);
  }
}

function decideStart(observed: TaskObservation): TaskDecision {
  const { task, job, robots, now } = observed;
  const bytes = Buffer.byteLength(JSON.stringify(task.spec));
  if (bytes > maxTaskBytes) {
    return { kind: "fail", reason: "TooLarge", message: `spec is ${bytes} bytes; must be at most ${maxTaskBytes} bytes` };
  }
  const target = task.spec.targetRobot;
  const { movedFrom, adopted } = task.status ?? {};
  const isBound = target !== undefined && isBoundTo(task, target);
  // Bound but not dispatched: the controller crashed between the two writes.
  if (isBound) return { kind: "dispatch", robot: target, attempt: (task.status?.attempt ?? 0) + 1, isRestart: false };

  const invalid = invalidPlacement(task);
  if (invalid !== undefined) return { kind: "fail", ...invalid };

  const jobName = task.spec.jobName;
  if (task.spec.robotSelector === undefined && job === undefined && jobName !== undefined && jobName !== "") {
    return {
      kind: "wait",
      message: `spec.jobName: Job ${jobName} not found, so the robotSelector is unknown`,
    };
  }
  if (movedFrom !== undefined && adopted !== undefined) {
    return { kind: "bind", robot: adopted.robot, isPinned: false, ...withAny(adopted.devices) };
  }
  const stopping = task.status?.displaced;
  const wait = decideDisplaced(task, robots, now);
  const { untilMs, mayReplace } = wait?.kind === "wait" ? wait : {};
  // The robot of a replaced attempt stops it when it returns.
  if (stopping?.stop === true && mayReplace !== true) {
    const message = `waits until ${stopping.robot} has stopped attempt ${stopping.attempt}`;
    return { kind: "wait-for-stop", message, ...(untilMs === undefined ? {} : { requeueAfterMs: untilMs - now }) };
  }
  return decideRobot(observed);
}

function decideRobot({ task, job, robots, usesOf, copies, preemptorsOf }: TaskObservation): TaskDecision {
  const demand = demandOf(task, job);
  const placement = decidePlacement(demand, robots, (robot) => loadFor(task, usesOf(robot)), copies(job));
  if (placement.kind === "placed") {
    const robot = placement.robot.metadata.name ?? "";
    return { kind: "bind", robot, isPinned: demand.pinned !== undefined, ...withAny(placement.devices) };
  }
  const preemption = decideTaskPreemption(task, demand, {
    robots,
    usesOf,
    isChosen: (other) => preemptorsOf(other).some((preemptor) => isPreemptedBy(other, preemptor)),
    scoreOf: preferenceScorer(demand, robots, copies(job)),
  });
  return preemption === undefined ? { kind: "wait", message: placement.message } : { kind: "preempt", preemption };
}

function withAny(devices: AssignedDevices | undefined) {
  return devices === undefined || devices.length === 0 ? {} : { devices };
}

/** Takes a Task off its robot for one of higher priority. It starts elsewhere once the robot has confirmed that it stopped the program. */
function decideStop({ task, robots, preemptorsOf }: TaskObservation): TaskDecision | undefined {
  const preemptor = preemptorsOf(task).find((each) => isPreemptedBy(task, each));
  const robot = robots.find(({ metadata }) => metadata.name === task.spec.targetRobot);
  if (preemptor === undefined || robot?.status?.phase !== "Online") return undefined;
  const name = robot.metadata.name ?? "";
  const displaced = { robot: name, attempt: task.status?.attempt ?? 0, stop: true };
  return { kind: "move", from: name, why: preemptionText(task, preemptor), displaced, isPreempted: true };
}

/** Whether a Task is bound to `robot`. A Task that was moved keeps the name of its last robot until it has another one. */
function isBoundTo(task: DeepReadonly<Task>, robot: string): boolean {
  return task.metadata.finalizers?.includes(agentFinalizer) === true && task.status?.movedFrom !== robot;
}

/**
 * Decides whether a Task that its robot may be running is lost. Without a policy it is not moved: its program may still be running, and two
 * robots must not run the same task.
 */
function decidePresence(task: DeepReadonly<Task>, robots: readonly DeepReadonly<Robot>[], now: number): TaskDecision {
  const name = task.spec.targetRobot ?? "";
  const lost = task.status?.conditions?.find((condition) => condition.type === "Lost");
  const robot = robots.find((each) => each.metadata.name === name);
  if (robot?.status?.phase === "Online") {
    return lost?.status === "True" ? { kind: "recover", robot: name } : decideDrain(task, robot, now);
  }
  const [reason, problem] =
    robot === undefined
      ? ["RobotDeleted", `Robot ${name} was deleted`]
      : ["RobotNotReporting", `${name}: ${robot.status?.message ?? "the robot is not online"}`];
  const since = offlineSince(robot) ?? (lost?.status === "True" ? lost.lastTransitionTime : wholeSeconds(now));
  const loss = decideLoss(task, Date.parse(since), now);
  if (loss.kind === "move" && loss.atMs <= now) {
    const { count, displaced } = loss;
    return { kind: "move", from: name, why: problem, count, ...(displaced === undefined ? {} : { displaced }) };
  }
  const message = `unknown since ${since}: ${problem}; ${describeLoss(loss, task)}`;
  if (lost?.status !== "True" || lost.message !== message) return { kind: "lose", since, reason, message };
  return loss.kind === "move" ? { kind: "leave", requeueAfterMs: loss.atMs - now } : { kind: "leave" };
}

/** Takes a Task off a robot that is being drained. It starts elsewhere once the robot has confirmed that it stopped the program. */
function decideDrain(task: DeepReadonly<Task>, robot: DeepReadonly<Robot>, now: number): TaskDecision {
  const atMs = drainAtMs(task, robot);
  if (atMs === undefined) return { kind: "leave" };
  if (atMs > now) return { kind: "leave", requeueAfterMs: atMs - now };
  const name = robot.metadata.name ?? "";
  const displaced = { robot: name, attempt: task.status?.attempt ?? 0, stop: true };
  return { kind: "move", from: name, why: `${name} is being drained`, displaced };
}

function describeLoss(loss: LossDecision, { status }: DeepReadonly<Task>): string {
  if (loss.kind === "stay") {
    const doubt = status?.state === "running" ? "its program may still be running" : "it may have started the task";
    return `not moved to another robot because ${loss.why ?? doubt}`;
  }
  const at = new Date(loss.atMs).toISOString();
  return loss.displaced === undefined
    ? `moves to another robot at ${at}, when the robot's lease has expired`
    : `moves to another robot at ${at}, while its program may still be running`;
}

/** A failure is judged before the Task makes room, so that it cannot escape its restart policy. */
function decideAfterExit(observed: TaskObservation): TaskDecision {
  const next = decideAfterFailure(observed.task, observed.now);
  const isWaiting = next.kind === "leave" || next.kind === "dispatch";
  return (isWaiting ? decideStop(observed) : undefined) ?? next;
}

function decideAfterFailure(task: DeepReadonly<Task>, now: number): TaskDecision {
  const status = task.status;
  const robot = task.spec.targetRobot ?? "";
  const nextAttempt = { kind: "dispatch", robot, attempt: (status?.attempt ?? 0) + 1, isRestart: true } as const;
  if (status?.moveAt !== undefined) {
    const remainingMs = Date.parse(status.moveAt) - now;
    if (remainingMs > 0) return { kind: "leave", requeueAfterMs: remainingMs };
    return { kind: "move", from: robot, why: status.message ?? "the program failed" };
  }
  if (status?.restartAt !== undefined) {
    const remainingMs = Date.parse(status.restartAt) - now;
    return remainingMs > 0 ? { kind: "leave", requeueAfterMs: remainingMs } : nextAttempt;
  }
  // The program did not fail: the robot stopped it because it was out of contact.
  if (status?.reason === leaseExpiredReason) return nextAttempt;
  const restart =
    status?.permanent === true
      ? ({ kind: "fail", why: "" } as const)
      : decideRestart(
          task.spec.restartPolicy,
          {
            windowStartMs: status?.restartWindowStart === undefined ? undefined : Date.parse(status.restartWindowStart),
            restartsInWindow: status?.restartsInWindow ?? 0,
          },
          now,
        );
  if (restart.kind === "restart") {
    const { atMs, windowStartMs, restartsInWindow } = restart;
    return { kind: "plan-restart", atMs, windowStartMs, restartsInWindow };
  }
  const failure = status?.message ?? "the program failed";
  const move = decideFailureMove(task, now);
  if (move.kind === "move") return { kind: "plan-move", atMs: now + move.delayMs, message: failure, count: move };
  const reasons = [
    ...((status?.restartCount ?? 0) > 0 && restart.why !== "" ? [restart.why] : []),
    ...(task.spec.reschedulePolicy === undefined ? [] : [move.why]),
  ];
  return { kind: "fail", reason: "Failed", message: reasons.length === 0 ? failure : `${failure} (${reasons.join("; ")})` };
}
