import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { agentFinalizer } from "../api/names.ts";
import type { Task } from "../api/task.ts";
import { type DispatchMessage, taskUidPattern } from "../protocol/messages.ts";

/** How long a robot may take to answer before it is told again. */
export const answerWithinMs = 10_000;

/** What a robot is to be told about a Task. */
export interface Telling {
  readonly action: DispatchMessage["action"];
  readonly robot: string;
  readonly attempt: number;
}

/**
 * What the robot of a Task is to be told, by the Task alone: `create` while it is being dispatched, `delete` while its deletion
 * waits for the robot. Undefined where there is nothing to tell.
 */
export function tellingOf(task: DeepReadonly<Task>): Telling | undefined {
  const robot = task.spec.targetRobot;
  const attempt = task.status?.attempt;
  if (robot === undefined || attempt === undefined || !taskUidPattern.test(task.metadata.uid ?? "")) return undefined;
  if (task.metadata.deletionTimestamp !== undefined) {
    const isReleased = task.status?.conditions?.some(
      (condition) => condition.type === "Released" && condition.status === "True",
    );
    const waits = task.metadata.finalizers?.includes(agentFinalizer) === true && isReleased !== true;
    return waits ? { action: "delete", robot, attempt } : undefined;
  }
  return task.status?.state === "dispatching" ? { action: "create", robot, attempt } : undefined;
}

/** Tells robots about their Tasks until they answer. Nothing in here has to survive: it follows from the Tasks. */
export interface Dispatches {
  /** A Task is there or has changed. */
  changed(task: DeepReadonly<Task>): void;
  /** A Task is gone. */
  removed(uid: string): void;
  /** A robot may have missed what it was told: tell it again. */
  repeat(robot: string): void;
  /** The broker may have missed all of it. */
  repeatAll(): void;
  stop(): void;
}

interface Pending {
  readonly telling: Telling;
  timer: Timer | undefined;
}

/** Makes {@link Dispatches}. `send` publishes; `isOnline` says whether waiting for an answer makes sense. */
export function createDispatches(options: {
  readonly clock: Clock;
  readonly taskOf: (uid: string) => DeepReadonly<Task> | undefined;
  readonly isOnline: (robot: string) => boolean;
  readonly send: (robot: string, message: DispatchMessage) => void;
}): Dispatches {
  const { clock, taskOf, isOnline, send } = options;
  const pending = new Map<string, Pending>();
  const byRobot = new Map<string, Set<string>>();

  const forget = (uid: string): void => {
    const entry = pending.get(uid);
    if (entry === undefined) return;
    entry.timer?.cancel();
    pending.delete(uid);
    const uids = byRobot.get(entry.telling.robot);
    uids?.delete(uid);
    if (uids?.size === 0) byRobot.delete(entry.telling.robot);
  };
  const tell = (uid: string): void => {
    const entry = pending.get(uid);
    const task = taskOf(uid);
    if (entry === undefined || task === undefined) return;
    entry.timer?.cancel();
    const { action, robot } = entry.telling;
    send(robot, { action, task: withoutBookkeeping(task) });
    entry.timer = clock.setTimer(
      answerWithinMs,
      () => {
        entry.timer = undefined;
        // An offline robot is told again when it registers, not by a timer.
        if (isOnline(robot)) tell(uid);
      },
      { background: true },
    );
  };
  return {
    changed(task) {
      const uid = task.metadata.uid ?? "";
      const telling = tellingOf(task);
      const before = pending.get(uid)?.telling;
      if (telling === undefined) {
        forget(uid);
        return;
      }
      if (before?.action === telling.action && before.attempt === telling.attempt && before.robot === telling.robot) return;
      forget(uid);
      pending.set(uid, { telling, timer: undefined });
      let uids = byRobot.get(telling.robot);
      if (uids === undefined) {
        uids = new Set();
        byRobot.set(telling.robot, uids);
      }
      uids.add(uid);
      tell(uid);
    },
    removed: forget,
    repeat(robot) {
      for (const uid of byRobot.get(robot) ?? []) tell(uid);
    },
    repeatAll() {
      for (const uid of pending.keys()) tell(uid);
    },
    stop() {
      for (const uid of pending.keys()) forget(uid);
    },
  };
}

/** The Task without the record of who wrote which field: half of its bytes, and nothing to a robot. */
function withoutBookkeeping(task: DeepReadonly<Task>): DeepReadonly<Task> {
  const { managedFields: _, ...metadata } = task.metadata;
  return { ...task, metadata };
}
