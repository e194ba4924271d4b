import type { DeepReadonly } from "@keelson/api-machinery";
import { agentFinalizer } from "../../api/names.ts";
import type { Robot } from "../../api/robot.ts";
import type { Task } from "../../api/task.ts";
import { type DisplacedDecision, decideDisplaced, offlineSince } from "./move-decision.ts";

/** Time after which a deleted Task no longer waits for its offline robot. */
export const lostAfterMs = 5 * 60_000;

/** What to do with a Task that is being deleted. */
export type DeletionDecision =
  | { readonly kind: "leave"; readonly requeueAfterMs?: number }
  /** Have another robot stop its displaced attempt, or forget that attempt. */
  | { readonly kind: "reconcile"; readonly displaced: Extract<DisplacedDecision, { readonly kind: "stop" | "forget" }> }
  /** Remove the finalizer. */
  | { readonly kind: "release"; readonly why: string };

/** Whether a robot may still have an attempt. `untilMs`: when the Task stops waiting for it. */
type Removal = { readonly kind: "gone"; readonly why: string } | { readonly kind: "wait"; readonly untilMs?: number };

/**
 * Decides about a Task that is being deleted.
 *
 * **Guarantees**: a Task that is bound waits until each robot that may have an attempt of it has confirmed the removal, is deleted, was
 * offline for {@link lostAfterMs}, or no longer holds its lease.
 */
export function decideDeletion(
  task: DeepReadonly<Task>,
  robots: readonly DeepReadonly<Robot>[],
  now: number,
): DeletionDecision {
  if (!task.metadata.finalizers?.includes(agentFinalizer)) return { kind: "leave" };
  if (task.status?.attempt === undefined) return { kind: "release", why: "it was never dispatched" };
  const current = currentRemoval(task, robots, now);
  const { adopted } = task.status;
  // An adoption that has not begun: its robot runs an attempt that is neither the current nor the displaced one.
  if (task.status.state === "pending" && adopted !== undefined && adopted.robot !== task.spec.targetRobot) {
    return { kind: "reconcile", displaced: { kind: "stop", attempt: adopted } };
  }
  const { displaced } = task.status;
  if (displaced === undefined || isCurrent(task)) return deletionAfter([current], now);
  if (displaced.stop !== true) return { kind: "reconcile", displaced: { kind: "stop" } };
  const removal = removalFrom(displaced.robot, task, robots, now);
  if (removal.kind === "gone" || decideDisplaced(task, robots, now)?.kind === "forget") {
    return { kind: "reconcile", displaced: { kind: "forget" } };
  }
  return deletionAfter([current, removal], now);
}

/** Whether the displaced attempt is the current one: the Task has left its robot and was not dispatched again. */
function isCurrent({ spec, status }: DeepReadonly<Task>): boolean {
  const { displaced, attempt } = status ?? {};
  return displaced !== undefined && displaced.robot === spec.targetRobot && displaced.attempt === attempt;
}

function currentRemoval(task: DeepReadonly<Task>, robots: readonly DeepReadonly<Robot>[], now: number): Removal {
  const { conditions, removedAttempt, attempt } = task.status ?? {};
  const isReleased = conditions?.some(({ type, status }) => type === "Released" && status === "True") === true;
  if (isReleased || removedAttempt === attempt) return { kind: "gone", why: "its robot has removed it" };
  const removal = removalFrom(task.spec.targetRobot ?? "", task, robots, now);
  if (removal.kind === "wait" && isCurrent(task) && decideDisplaced(task, robots, now)?.kind === "forget") {
    return { kind: "gone", why: "the lease of its robot has expired" };
  }
  return removal;
}

function removalFrom(name: string, task: DeepReadonly<Task>, robots: readonly DeepReadonly<Robot>[], now: number): Removal {
  const robot = robots.find(({ metadata }) => metadata.name === name);
  if (robot === undefined) return { kind: "gone", why: "its robot was deleted" };
  if (robot.status?.phase === "Online") return { kind: "wait" };
  // Without a time of going offline, the time counts from the deletion of the Task.
  const untilMs = Date.parse(offlineSince(robot) ?? task.metadata.deletionTimestamp ?? "") + lostAfterMs;
  return untilMs > now ? { kind: "wait", untilMs } : { kind: "gone", why: "its robot has been offline for 5 minutes" };
}

function deletionAfter(removals: readonly [Removal, ...Removal[]], now: number): DeletionDecision {
  const times = removals.flatMap((removal) => (removal.kind === "wait" ? [removal.untilMs ?? Number.POSITIVE_INFINITY] : []));
  if (times.length === 0) return { kind: "release", why: removals[0].kind === "gone" ? removals[0].why : "" };
  const nextMs = Math.min(...times);
  return nextMs === Number.POSITIVE_INFINITY ? { kind: "leave" } : { kind: "leave", requeueAfterMs: nextMs - now };
}
