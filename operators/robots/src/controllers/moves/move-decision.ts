import type { DeepReadonly } from "@keelson/api-machinery";
import { isLongRunning, isPerRobot } from "../../api/job.ts";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { disconnectPolicyOf, leaseExpiryMs } from "../../work/disconnect-policy.ts";
import {
  completeReschedulePolicy,
  decideReschedule,
  type PastMoves,
  type RescheduleDecision,
} from "../../work/reschedule-policy.ts";

/** An attempt on a robot. */
export interface RobotAttempt {
  readonly robot: string;
  readonly attempt: number;
  /** Whether its robot is asked to stop it. */
  readonly stop?: boolean;
}

/** The moves of a Task including the next one, to be stored with it. */
export interface MoveCount {
  readonly windowStartMs: number;
  readonly movesInWindow: number;
  readonly consecutive: number;
}

/** What happens to a Task whose robot has stopped reporting. */
export type LossDecision =
  /** Move it at this time. `displaced`: the program of this attempt may still be running then. */
  | { readonly kind: "move"; readonly atMs: number; readonly count: MoveCount; readonly displaced?: RobotAttempt }
  /** Wait for the robot. `why` is undefined if there is no policy. */
  | { readonly kind: "stay"; readonly why?: string };

/** What happens to an attempt that a replacement has displaced. */
export type DisplacedDecision =
  /** Have its robot stop it. `attempt`: stop this one instead of the displaced one. */
  | { readonly kind: "stop"; readonly attempt?: RobotAttempt }
  /** Its robot has removed it or no longer exists. */
  | { readonly kind: "forget" }
  /** It becomes the current attempt again. `stop` is the replacement, if there is one by now. */
  | { readonly kind: "adopt"; readonly original: RobotAttempt; readonly stop?: RobotAttempt }
  /** `untilMs`: time of the next decision. `mayReplace`: the Task may start on another robot in the meantime. */
  | { readonly kind: "wait"; readonly untilMs?: number; readonly mayReplace?: true };

/** Reason of the condition Scheduled if spec.targetRobot was set before the Task was bound. */
export const pinnedReason = "RobotPinned";

/** Whether a Task must stay on its robot: the user chose it, or its Job runs one task per robot. */
export function isPinned({ spec, status }: DeepReadonly<Task>): boolean {
  const scheduled = status?.conditions?.find(({ type }) => type === "Scheduled");
  return isPerRobot(spec.type) || scheduled?.reason === pinnedReason;
}

/**
 * Decides whether a Task that may be running on a robot out of contact moves.
 *
 * **Guarantees**: with `onRobot: stop`, it moves only after the robot's lease has expired. `status.lease.grantsUntil` bounds the lease:
 * no lease is granted after that time without raising it, which conflicts with the move.
 */
export function decideLoss(task: DeepReadonly<Task>, sinceMs: number, now: number): LossDecision {
  const { spec, status } = task;
  const policy = disconnectPolicyOf(spec);
  if (policy === undefined) return { kind: "stay" };
  const robot = spec.targetRobot ?? "";
  if (!policy.replace) return { kind: "stay", why: "spec.disconnect.replace is false" };
  if (isPinned(task)) return { kind: "stay", why: `the task is pinned to ${robot}` };
  const attempt = status?.attempt ?? 0;
  const dispatchedMs = Date.parse(status?.dispatchedAt ?? "");
  const reschedule = decideReschedule(lossPolicy(spec), pastMoves(task), {
    now,
    ranMs: Number.isNaN(dispatchedMs) ? 0 : sinceMs - dispatchedMs,
  });
  if (reschedule.kind === "stay") return reschedule;
  const earliestMs = sinceMs + Math.max(policy.lostAfterMs, reschedule.delayMs);
  if (policy.onRobot === "keep") {
    if (status?.displaced !== undefined) {
      return { kind: "stay", why: `attempt ${status.displaced.attempt} on ${status.displaced.robot} is not reconciled yet` };
    }
    return { kind: "move", atMs: earliestMs, count: reschedule, displaced: { robot, attempt } };
  }
  if (status?.lease?.attempt !== attempt) {
    return { kind: "stay", why: `the agent of ${robot} does not enforce leases, so its program may still be running` };
  }
  const expiryMs = expiryOf(status.lease, policy.lostAfterMs);
  return { kind: "move", atMs: Math.max(earliestMs, expiryMs), count: reschedule };
}

/** Without a reschedule policy, the disconnect policy alone decides: a lost task moves as soon as it may, without limit. */
function lossPolicy({ reschedulePolicy, type }: DeepReadonly<Task["spec"]>): ReturnType<typeof completeReschedulePolicy> {
  return completeReschedulePolicy(reschedulePolicy ?? { delay: "0s", unlimited: true }, type);
}

/** When a Task leaves a robot that is being drained, in milliseconds since the epoch; undefined if it stays. */
export function drainAtMs(task: DeepReadonly<Task>, robot: DeepReadonly<Robot>): number | undefined {
  const { drain } = robot.spec;
  if (drain === undefined || isPinned(task) || task.status?.displaced !== undefined) return undefined;
  if (!confirmsStops(robot)) return undefined;
  if (isLongRunning(task.spec.type) || drain.deadline === undefined) return 0;
  return Date.parse(drain.deadline);
}

/** Whether a robot's agent confirms that it stopped a program. An original agent does not. */
export function confirmsStops({ status }: DeepReadonly<Robot>): boolean {
  return (status?.agentFeatures ?? []).length > 0;
}

/** Since when a robot is not online; undefined if that is unknown. */
export function offlineSince(robot: DeepReadonly<Robot> | undefined): string | undefined {
  const online = robot?.status?.conditions?.find((condition) => condition.type === "Online");
  return online?.status === "False" ? online.lastTransitionTime : undefined;
}

/** Decides whether a Task whose last attempt failed on its robot moves to another one. */
export function decideFailureMove(task: DeepReadonly<Task>, now: number): RescheduleDecision {
  const { spec, status } = task;
  if (spec.reschedulePolicy === undefined) return { kind: "stay", why: "no reschedule policy" };
  if (isPinned(task)) return { kind: "stay", why: `the task is pinned to ${spec.targetRobot ?? "its robot"}` };
  const ranMs = Date.parse(status?.finishedAt ?? "") - Date.parse(status?.startedAt ?? "");
  return decideReschedule(completeReschedulePolicy(spec.reschedulePolicy, spec.type), pastMoves(task), {
    now,
    ranMs: Number.isNaN(ranMs) ? 0 : ranMs,
  });
}

function pastMoves({ status }: DeepReadonly<Task>): PastMoves {
  return {
    windowStartMs: status?.moveWindowStart === undefined ? undefined : Date.parse(status.moveWindowStart),
    movesInWindow: status?.movesInWindow ?? 0,
    consecutive: status?.consecutiveMoves ?? 0,
  };
}

/**
 * Decides which of two attempts remains when the robot of a displaced one returns. Undefined if no attempt is displaced. An attempt whose
 * robot does not confirm that it stopped has ended when its lease has expired.
 */
export function decideDisplaced(
  task: DeepReadonly<Task>,
  robots: readonly DeepReadonly<Robot>[],
  now: number,
): DisplacedDecision | undefined {
  const { spec, status } = task;
  const displaced = status?.displaced;
  if (displaced === undefined) return undefined;
  const robot = robots.find((each) => each.metadata.name === displaced.robot);
  if (robot === undefined || status?.removedAttempt === displaced.attempt) return { kind: "forget" };
  if (displaced.stop === true) {
    const expiryMs = displacedExpiryMs(task, displaced.attempt);
    if (expiryMs === undefined) return waitForStop(task, robot, now);
    return expiryMs <= now ? { kind: "forget" } : { kind: "wait", untilMs: expiryMs };
  }
  if (robot.status?.phase !== "Online") return { kind: "wait" };
  const state = status?.state ?? "";
  const hasEnded = state === "completed" || state === "failed";
  if (hasEnded || disconnectPolicyOf(spec)?.reconcile === "keepReplacement") return { kind: "stop" };
  const { attempt, robot: name } = displaced;
  const original = { robot: name, attempt };
  const hasReplacement = status?.attempt !== attempt;
  return hasReplacement
    ? { kind: "adopt", original, stop: { robot: spec.targetRobot ?? "", attempt: status?.attempt ?? 0 } }
    : { kind: "adopt", original };
}

/** Waits for a robot that is asked to stop an attempt. If the attempt may run twice, that ends when the robot is lost. */
function waitForStop({ spec }: DeepReadonly<Task>, robot: DeepReadonly<Robot>, now: number): DisplacedDecision {
  const policy = disconnectPolicyOf(spec);
  const since = robot.status?.phase === "Online" ? undefined : offlineSince(robot);
  if (policy?.onRobot !== "keep" || !policy.replace || since === undefined) return { kind: "wait" };
  const untilMs = Date.parse(since) + policy.lostAfterMs;
  return untilMs <= now ? { kind: "wait", mayReplace: true } : { kind: "wait", untilMs };
}

/** When the lease of a displaced attempt has expired; undefined if it has none. */
function displacedExpiryMs({ spec, status }: DeepReadonly<Task>, attempt: number): number | undefined {
  const policy = disconnectPolicyOf(spec);
  const lease = status?.lease;
  if (lease?.attempt !== attempt || (policy?.onRobot !== "stop" && lease.durationMs === undefined)) return undefined;
  return expiryOf(lease, policy?.lostAfterMs ?? 0);
}

/** When a lease has expired. Its duration may not be recorded, or be raised by an agent that reads the current spec. */
function expiryOf({ grantsUntil, durationMs = 0 }: RecordedLease, lostAfterMs: number): number {
  return leaseExpiryMs(Date.parse(grantsUntil), Math.max(durationMs, lostAfterMs));
}

type RecordedLease = NonNullable<NonNullable<Task["status"]>["lease"]>;
