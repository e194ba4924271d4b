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

/** The `delete` that the robot of a displaced attempt needs. Undefined unless it is asked to stop the attempt. */
function stopFor({ status }: DeepReadonly<Task>): PendingDispatch | undefined {
  const { displaced } = status ?? {};
  if (displaced?.stop !== true || status?.removedAttempt === displaced.attempt) return undefined;
  return { action: "delete", robot: displaced.robot, attempt: displaced.attempt };
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
  readonly uid: string;
  readonly dispatch: PendingDispatch;
  timer: Timer | undefined;
}

/** Sends dispatches until robots confirm them. Its state follows from the Tasks and need not survive a restart. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  /** By uid, and by `<uid>/displaced`. */
  readonly #entries = new Map<string, Entry>();
  readonly #keysByRobot = new Map<string, Set<string>>();

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /** Handles a Task that appeared or changed. */
  taskChanged(task: DeepReadonly<Task>): void {
    const uid = task.metadata.uid ?? "";
    this.#update(uid, { uid, dispatch: dispatchFor(task) });
    this.#update(displacedKey(uid), { uid, dispatch: stopFor(task) });
  }

  /** Forgets a Task. */
  taskDeleted(uid: string): void {
    this.#forget(uid);
    this.#forget(displacedKey(uid));
  }

  /** Sends all pending dispatches of a robot again, because it may have missed them. */
  resend(robot: string): void {
    for (const key of this.#keysByRobot.get(robot) ?? []) this.#send(key);
  }

  /** Sends all pending dispatches again, because the broker may have lost them. */
  resendAll(): void {
    for (const key of this.#entries.keys()) this.#send(key);
  }

  stop(): void {
    for (const key of this.#entries.keys()) this.#forget(key);
  }

  #update(key: string, { uid, dispatch }: { readonly uid: string; readonly dispatch: PendingDispatch | undefined }): void {
    const before = this.#entries.get(key)?.dispatch;
    if (dispatch === undefined) {
      this.#forget(key);
      return;
    }
    if (before?.action === dispatch.action && before.attempt === dispatch.attempt && before.robot === dispatch.robot) return;
    this.#forget(key);
    this.#entries.set(key, { uid, dispatch, timer: undefined });
    const keys = this.#keysByRobot.get(dispatch.robot) ?? new Set();
    this.#keysByRobot.set(dispatch.robot, keys.add(key));
    this.#send(key);
  }

  #forget(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    entry.timer?.cancel();
    this.#entries.delete(key);
    const keys = this.#keysByRobot.get(entry.dispatch.robot);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysByRobot.delete(entry.dispatch.robot);
  }

  #send(key: string): void {
    const { clock, taskOf, isOnline, send } = this.#options;
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    const task = taskOf(entry.uid);
    if (task === undefined) return;
    entry.timer?.cancel();
    const { action, robot, attempt } = entry.dispatch;
    send(robot, { action, task: action === "delete" ? withAttempt(task, attempt) : withoutManagedFields(task) });
    const onTimeout = (): void => {
      entry.timer = undefined;
      // An offline robot receives the dispatch when it registers.
      if (isOnline(robot)) this.#send(key);
    };
    entry.timer = clock.setTimer(resendAfterMs, onTimeout, { background: true });
  }
}

const displacedKey = (uid: string): string => `${uid}/displaced`;

function withAttempt(task: DeepReadonly<Task>, attempt: number): DeepReadonly<Task> {
  const { status, ...rest } = withoutManagedFields(task);
  return { ...rest, status: { ...status, attempt } };
}

/** The Task without `managedFields`, which are half of its bytes and of no use to a robot. */
function withoutManagedFields(task: DeepReadonly<Task>): DeepReadonly<Task> {
  const { managedFields: _, ...metadata } = task.metadata;
  return { ...task, metadata };
}
