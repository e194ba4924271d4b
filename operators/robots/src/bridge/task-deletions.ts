import type { DeepReadonly } from "@keelson/api-machinery";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Task } from "../api/task.ts";
import type { RegisterMessage } from "../protocol/messages.ts";

/** Time between two attempts to send deletions that exceeded a robot's limit. */
const drainIntervalMs = 1000;

/** A task that a robot has. */
type HeldTask = NonNullable<RegisterMessage["tasks"]>[number];

/** Options of {@link TaskDeletions}. */
export interface TaskDeletionsOptions {
  readonly clock: Clock;
  /** Whether a robot should not have a task. */
  readonly isUnwanted: (robot: string, taskUid: string) => boolean;
  /** Counts a deletion. Returns false if the robot has exceeded its limit. */
  readonly mayDelete: (robot: string) => boolean;
  /** Has a robot remove a task. */
  readonly send: (robot: string, task: HeldTask) => void;
}

/**
 * Has robots remove the tasks that they should not have. Deletions beyond a robot's limit wait for it. Of each robot, only the rest of its
 * latest registration waits.
 */
export class TaskDeletions {
  readonly #options: TaskDeletionsOptions;
  /** Tasks whose deletion waits, by robot. Never empty lists. */
  readonly #waiting = new Map<string, readonly HeldTask[]>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: TaskDeletionsOptions) {
    this.#options = options;
  }

  /** Handles that a robot has exactly these tasks. */
  registered(robot: string, tasks: readonly HeldTask[]): void {
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
  #drain(robot: string, tasks: readonly HeldTask[]): void {
    const { isUnwanted, mayDelete, send } = this.#options;
    this.#waiting.delete(robot);
    for (const [index, task] of tasks.entries()) {
      if (!isUnwanted(robot, task.taskUid)) continue;
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

/** Whether a robot should not have a task. `task` is undefined if it does not exist. */
export function isUnwanted(task: DeepReadonly<Task> | undefined, robot: string): boolean {
  return task === undefined || (task.spec.targetRobot !== robot && task.status?.displaced?.robot !== robot);
}
