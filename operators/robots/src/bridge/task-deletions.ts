import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Task } from "../api/task.ts";

/** Time between two attempts to send deletions that exceeded a robot's limit. */
const drainIntervalMs = 1000;

/** A task of a registration. */
export interface RegisteredTask {
  readonly taskUid: string;
  readonly attempt: number;
  /** Whether the robot should have it and does not. It confirms that, which ends the attempt. */
  readonly isMissing?: boolean;
}

/** Options of {@link TaskDeletions}. */
export interface TaskDeletionsOptions {
  readonly clock: Clock;
  /** The tasks that are bound to a robot. */
  readonly tasksOf: (robot: string) => readonly DeepReadonly<Task>[];
  /** Whether a robot should not have a task, or is still missing it. */
  readonly isUnwanted: (robot: string, task: RegisteredTask) => boolean;
  /** Counts a deletion. Returns false if the robot has exceeded its limit. */
  readonly mayDelete: (robot: string) => boolean;
  /** Has a robot remove a task. */
  readonly send: (robot: string, task: RegisteredTask) => void;
}

/**
 * Has robots remove the tasks that they should not have, and confirm that they lack those that they should have. Deletions beyond a robot's limit wait for it. Of each robot, only the rest of its
 * latest registration waits.
 */
export class TaskDeletions {
  readonly #options: TaskDeletionsOptions;
  /** Tasks whose deletion waits, by robot. Never empty lists. */
  readonly #waiting = new Map<string, readonly RegisteredTask[]>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: TaskDeletionsOptions) {
    this.#options = options;
  }

  /** See {@link missingTasks}. Original agents do not list their tasks. */
  missing(robot: string, registered: readonly RegisteredTask[] | undefined): readonly RegisteredTask[] {
    return registered === undefined ? [] : missingTasks(this.#options.tasksOf(robot), registered);
  }

  /** Handles that a robot has exactly these tasks, but for those that are missing. */
  registered(robot: string, tasks: readonly RegisteredTask[]): void {
    this.#drain(robot, tasks);
    this.#arm();
  }

  /** Forgets a robot that was deleted. */
  robotDeleted(robot: string): void {
    this.#waiting.delete(robot);
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#waiting.clear();
  }

  /** Sends what the limit permits. The rest replaces what waits for the robot. */
  #drain(robot: string, tasks: readonly RegisteredTask[]): void {
    const { isUnwanted, mayDelete, send } = this.#options;
    this.#waiting.delete(robot);
    for (const [index, task] of tasks.entries()) {
      if (!isUnwanted(robot, task)) continue;
      if (!mayDelete(robot)) {
        this.#waiting.set(robot, tasks.slice(index));
        return;
      }
      send(robot, task);
    }
  }

  #arm(): void {
    if (this.#isStopped || this.#timer !== undefined || this.#waiting.size === 0) return;
    const onTimeout = (): void => {
      this.#timer = undefined;
      for (const [robot, tasks] of [...this.#waiting]) this.#drain(robot, tasks);
      this.#arm();
    };
    this.#timer = this.#options.clock.setTimer(drainIntervalMs, onTimeout, { background: true });
  }
}

/** Whether a robot should not have a task, or is still missing it. `task` is undefined if it does not exist. */
export function isUnwanted(
  task: DeepReadonly<Task> | undefined,
  robot: string,
  registered: Omit<RegisteredTask, "taskUid">,
): boolean {
  const { isMissing = false, attempt } = registered;
  if (isMissing) return task?.status?.state === "running" && task.spec.targetRobot === robot && task.status.attempt === attempt;
  return task === undefined || (task.spec.targetRobot !== robot && task.status?.displaced?.robot !== robot);
}

/**
 * The tasks that run on a robot according to the API, and that it did not list in its registration: it has lost their records. Call it when the registration
 * arrives: a task that starts later is not in it either.
 */
export function missingTasks(
  tasks: readonly DeepReadonly<Task>[],
  registered: readonly { readonly taskUid: string }[],
): readonly RegisteredTask[] {
  const has = new Set(registered.map(({ taskUid }) => taskUid));
  return tasks.flatMap(({ metadata: { uid = "" }, status }) => {
    const { state, attempt } = status ?? {};
    const isMissing = state === "running" && attempt !== undefined && !has.has(uid);
    return isMissing ? [{ taskUid: uid, attempt, isMissing }] : [];
  });
}
