import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { agentFinalizer } from "../api/names.ts";
import type { Task } from "../api/task.ts";
import { type DispatchMessage, taskUidPattern } from "../protocol/messages.ts";

/** A dispatch is sent again if the robot has not answered within this time. */
export const resendAfterMs = 10_000;

/** A message that a robot has not confirmed yet. */
export interface PendingDispatch {
  readonly action: DispatchMessage["action"];
  readonly robot: string;
  readonly attempt: number;
}

/**
 * The message that a Task's robot needs, derived from the Task alone: `create` while the Task is dispatching, `delete` while its
 * deletion waits for the robot. Undefined if the robot needs none.
 */
function dispatchFor(task: DeepReadonly<Task>): PendingDispatch | undefined {
  const robot = task.spec.targetRobot;
  const attempt = task.status?.attempt;
  if (robot === undefined || attempt === undefined || !taskUidPattern.test(task.metadata.uid ?? "")) return undefined;
  if (task.metadata.deletionTimestamp !== undefined) {
    const isReleased = task.status?.conditions?.some(
      (condition) => condition.type === "Released" && condition.status === "True",
    );
    const isWaiting = task.metadata.finalizers?.includes(agentFinalizer) === true && isReleased !== true;
    return isWaiting ? { action: "delete", robot, attempt } : undefined;
  }
  return task.status?.state === "dispatching" ? { action: "create", robot, attempt } : undefined;
}

/** Options of a {@link Dispatcher}. */
export interface DispatcherOptions {
  readonly clock: Clock;
  /** The current state of a Task, by uid. */
  readonly taskOf: (uid: string) => DeepReadonly<Task> | undefined;
  readonly isOnline: (robot: string) => boolean;
  /** Publishes a message. It may be lost. */
  readonly send: (robot: string, message: DispatchMessage) => void;
}

interface Entry {
  readonly dispatch: PendingDispatch;
  timer: Timer | undefined;
}

/** Sends dispatches until robots confirm them. Its state follows from the Tasks and need not survive a restart. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #uidsByRobot = new Map<string, Set<string>>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Handles a Task that appeared or changed. */
  taskChanged(task: DeepReadonly<Task>): void {
    const uid = task.metadata.uid ?? "";
    const dispatch = dispatchFor(task);
    const before = this.#entries.get(uid)?.dispatch;
    if (dispatch === undefined) {
      this.taskDeleted(uid);
      return;
    }
    if (before?.action === dispatch.action && before.attempt === dispatch.attempt && before.robot === dispatch.robot) return;
    this.taskDeleted(uid);
    this.#entries.set(uid, { dispatch, timer: undefined });
    const uids = this.#uidsByRobot.get(dispatch.robot) ?? new Set();
    this.#uidsByRobot.set(dispatch.robot, uids.add(uid));
    this.#send(uid);
  }

  /** Forgets a Task. */
  taskDeleted(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry === undefined) return;
    entry.timer?.cancel();
    this.#entries.delete(uid);
    const uids = this.#uidsByRobot.get(entry.dispatch.robot);
    uids?.delete(uid);
    if (uids?.size === 0) this.#uidsByRobot.delete(entry.dispatch.robot);
  }

  /** Sends all pending dispatches of a robot again, because it may have missed them. */
  resend(robot: string): void {
    for (const uid of this.#uidsByRobot.get(robot) ?? []) this.#send(uid);
  }

  /** Sends all pending dispatches again, because the broker may have lost them. */
  resendAll(): void {
    for (const uid of this.#entries.keys()) this.#send(uid);
  }

  stop(): void {
    for (const uid of this.#entries.keys()) this.taskDeleted(uid);
  }

  #send(uid: string): void {
    const { clock, taskOf, isOnline, send } = this.#options;
    const entry = this.#entries.get(uid);
    const task = taskOf(uid);
    if (entry === undefined || task === undefined) return;
    entry.timer?.cancel();
    const { action, robot } = entry.dispatch;
    send(robot, { action, task: withoutManagedFields(task) });
    const onTimeout = (): void => {
      entry.timer = undefined;
      // An offline robot receives the dispatch when it registers.
      if (isOnline(robot)) this.#send(uid);
    };
    entry.timer = clock.setTimer(resendAfterMs, onTimeout, { background: true });
  }
}

/** The Task without `managedFields`, which are half of its bytes and of no use to a robot. */
function withoutManagedFields(task: DeepReadonly<Task>): DeepReadonly<Task> {
  const { managedFields: _, ...metadata } = task.metadata;
  return { ...task, metadata };
}
