import type { DeepReadonly } from "@keelson/api-machinery";
import type { Job } from "../api/job.ts";
import { agentFinalizer } from "../api/names.ts";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { amountsOf, decidePlacement, type Load } from "../placement/placement.ts";
import { decideRestart } from "../work/restart-policy.ts";

/** How long a robot may be offline before a deleted Task no longer waits for it. */
export const lostAfterMs = 5 * 60_000;

/** The largest Task that is sent to a robot: what a broker takes (256 KiB), less room for the envelope. */
export const largestTaskBytes = 240 * 1024;

/** What a decision about a Task is made from. */
export interface TaskObservation {
  readonly task: DeepReadonly<Task>;
  /** The Job that `spec.jobName` names, if it is there. */
  readonly job: DeepReadonly<Job> | undefined;
  /** The robots of the Task's namespace. */
  readonly robots: readonly DeepReadonly<Robot>[];
  /** What other Tasks take of a robot, those that were bound a moment ago included. */
  readonly loadOf: (robot: string) => Load;
  readonly now: number;
}

/** What is to become of a Task. */
export type TaskDecision =
  /** Nothing, until something changes or this time has passed. */
  | { readonly kind: "leave"; readonly requeueAfterMs?: number }
  /** No robot fits, and why. */
  | { readonly kind: "wait"; readonly message: string }
  /** This robot runs it: record that, then dispatch. */
  | { readonly kind: "bind"; readonly robot: string }
  /** The Task is bound: let the bridge send this attempt. */
  | { readonly kind: "dispatch"; readonly robot: string; readonly attempt: number; readonly isRestart: boolean }
  /** The attempt failed; another follows at this time. */
  | { readonly kind: "plan-restart"; readonly atMs: number; readonly windowStartMs: number; readonly restartsInWindow: number }
  /** It has failed for good. */
  | { readonly kind: "fail"; readonly reason: string; readonly message: string }
  /** Nothing holds the deletion up any longer. */
  | { readonly kind: "release"; readonly why: string };

/**
 * Decides about a Task.
 *
 * **Guarantees**: `completed` and `failed` are never left. A Task is bound once and keeps its robot; every attempt has a
 * number of its own, recorded before the robot is told. A bound Task that is deleted waits until its robot has confirmed
 * that nothing of it is left, the robot is gone, or the robot was offline for {@link lostAfterMs}.
 */
export function decideTask(observed: TaskObservation): TaskDecision {
  const { task, robots, now } = observed;
  if (task.metadata.deletionTimestamp !== undefined) return decideDeletion(task, robots, now);
  switch (task.status?.state ?? "") {
    case "completed":
    case "failed":
    case "running":
    case "dispatching":
      return { kind: "leave" };
    case "exited":
      return decideAfterFailure(task, now);
    default:
      return decideStart(observed);
  }
}

function decideStart({ task, job, robots, loadOf }: TaskObservation): TaskDecision {
  const bytes = Buffer.byteLength(JSON.stringify(task.spec));
  if (bytes > largestTaskBytes) {
    return {
      kind: "fail",
      reason: "TooLarge",
      message: `spec has ${bytes} bytes; at most ${largestTaskBytes} can be sent to a robot`,
    };
  }
  const target = task.spec.targetRobot;
  const isBound = target !== undefined && task.metadata.finalizers?.includes(agentFinalizer) === true;
  // Bound before and not dispatched: the controller ended between the two writes.
  if (isBound) return { kind: "dispatch", robot: target, attempt: (task.status?.attempt ?? 0) + 1, isRestart: false };

  const jobName = task.spec.jobName;
  if (task.spec.robotSelector === undefined && job === undefined && jobName !== undefined && jobName !== "") {
    return {
      kind: "wait",
      message: `the Job ${jobName} that spec.jobName names is not there, so its robotSelector is not known`,
    };
  }
  const placement = decidePlacement(
    {
      selector: task.spec.robotSelector ?? job?.spec.robotSelector ?? {},
      constraints: task.spec.constraints ?? [],
      ...amountsOf(task.spec.resources),
      ...(target === undefined || target === "" ? {} : { pinned: target }),
    },
    robots,
    loadOf,
  );
  return placement.kind === "placed"
    ? { kind: "bind", robot: placement.robot.metadata.name ?? "" }
    : { kind: "wait", message: placement.message };
}

function decideAfterFailure(task: DeepReadonly<Task>, now: number): TaskDecision {
  const status = task.status;
  const robot = task.spec.targetRobot ?? "";
  if (status?.restartAt !== undefined) {
    const leftMs = Date.parse(status.restartAt) - now;
    return leftMs > 0
      ? { kind: "leave", requeueAfterMs: leftMs }
      : { kind: "dispatch", robot, attempt: (status.attempt ?? 0) + 1, isRestart: true };
  }
  const decision = decideRestart(
    task.spec.restartPolicy,
    {
      windowStartMs: status?.restartWindowStart === undefined ? undefined : Date.parse(status.restartWindowStart),
      restartsInWindow: status?.restartsInWindow ?? 0,
    },
    now,
  );
  if (decision.kind === "restart") {
    const { atMs, windowStartMs, restartsInWindow } = decision;
    return { kind: "plan-restart", atMs, windowStartMs, restartsInWindow };
  }
  const said = status?.message ?? "the program failed";
  return { kind: "fail", reason: "Failed", message: (status?.restartCount ?? 0) > 0 ? `${said} (${decision.why})` : said };
}

function decideDeletion(task: DeepReadonly<Task>, robots: readonly DeepReadonly<Robot>[], now: number): TaskDecision {
  if (!task.metadata.finalizers?.includes(agentFinalizer)) return { kind: "leave" };
  if (task.status?.attempt === undefined) return { kind: "release", why: "it was never sent to a robot" };
  if (task.status.conditions?.some((condition) => condition.type === "Released" && condition.status === "True")) {
    return { kind: "release", why: "its robot has removed it" };
  }
  const robot = robots.find((each) => each.metadata.name === task.spec.targetRobot);
  if (robot === undefined) return { kind: "release", why: "its robot is gone" };
  if (robot.status?.phase === "Online") return { kind: "leave" };
  const online = robot.status?.conditions?.find((condition) => condition.type === "Online");
  const since = online?.status === "False" ? Date.parse(online.lastTransitionTime) : undefined;
  // A robot that has never been seen offline begins to count when the Task was deleted.
  const countsFrom = since ?? Date.parse(task.metadata.deletionTimestamp ?? "");
  const leftMs = countsFrom + lostAfterMs - now;
  return leftMs > 0
    ? { kind: "leave", requeueAfterMs: leftMs }
    : { kind: "release", why: "its robot has been offline for 5 minutes" };
}
