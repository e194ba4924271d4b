import type { DeepReadonly } from "@keelson/api-machinery";
import type { Robot } from "../api/robot.ts";
import type { Task } from "../api/task.ts";
import { checksFeature } from "../protocol/messages.ts";
import type { Copy } from "./rollout-observation.ts";
import type { CompleteUpdatePolicy } from "./update-policy.ts";

/** Revision of Tasks that were created before Jobs had revisions. */
export const firstRevision = 1;

/** A copy that a group should have. */
export interface WantedCopy {
  readonly key: string;
  /** Robot that the copy is pinned to. */
  readonly robot?: string;
}

/** Input of {@link copyOf}. */
export interface CopyContext {
  /** Robots by name. */
  readonly robots: ReadonlyMap<string, DeepReadonly<Robot>>;
  /** Keys of the stable revision's copies. */
  readonly stableKeys: ReadonlySet<string>;
  readonly policy: CompleteUpdatePolicy;
  readonly now: number;
}

/** A wanted copy with its Task, as a rollout sees it. */
export function copyOf(wanted: WantedCopy, task: DeepReadonly<Task> | undefined, context: CopyContext): Copy {
  const { robots, stableKeys, policy, now } = context;
  const name = task?.spec.targetRobot ?? wanted.robot;
  const robot = name === undefined ? undefined : robots.get(name);
  const deletedAt = task?.metadata.deletionTimestamp;
  const health = healthOf(task, { minHealthyMs: policy.minHealthyMs, hasChecks: runsChecks(task, robot), now });
  return {
    key: wanted.key,
    ...(name === undefined ? {} : { robot: name }),
    isOffline: name !== undefined && robot?.status?.phase !== "Online",
    wave: waveOf(robot, policy),
    ...(task === undefined ? {} : { revision: task.spec.revision ?? firstRevision }),
    isDeleting: deletedAt !== undefined,
    ...(deletedAt === undefined ? {} : { deletedAtMs: Date.parse(deletedAt) }),
    ...health,
    isInStable: stableKeys.has(wanted.key),
  };
}

/** Index of the first wave that selects the robot; the number of waves if none does. */
function waveOf(robot: DeepReadonly<Robot> | undefined, { waves }: CompleteUpdatePolicy): number {
  const labels = robot?.spec.labels ?? {};
  const index = waves.findIndex(
    ({ robotSelector }) =>
      robot !== undefined &&
      Object.entries(robotSelector).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value),
  );
  return index < 0 ? waves.length : index;
}

/** Whether the robot checks the health of a task. Older agents do not. */
function runsChecks(task: DeepReadonly<Task> | undefined, robot: DeepReadonly<Robot> | undefined): boolean {
  const hasChecks = task?.spec.services?.some(({ checks = [] }) => checks.length > 0) === true;
  return hasChecks && robot?.status?.agentFeatures?.includes(checksFeature) === true;
}

/** By the operator's clock only: a robot's clock may be off. */
function healthOf(
  task: DeepReadonly<Task> | undefined,
  { minHealthyMs, hasChecks, now }: { readonly minHealthyMs: number; readonly hasChecks: boolean; readonly now: number },
): Pick<Copy, "condition" | "availableAtMs"> {
  const { state, reason, runningSince, health, passingSince } = task?.status ?? {};
  if (state === "failed" || state === "completed") return { condition: "failed" };
  // Restarting: the program ended, and its robot starts it again after a delay.
  if (state !== "running" || reason === "Restarting") return { condition: "starting" };
  if (hasChecks && health !== "passing") return { condition: "starting" };
  if (runningSince === undefined) return { condition: "available" };
  const since = Math.max(Date.parse(runningSince), hasChecks && passingSince !== undefined ? Date.parse(passingSince) : 0);
  const availableAtMs = since + minHealthyMs;
  return availableAtMs <= now ? { condition: "available" } : { condition: "starting", availableAtMs };
}
