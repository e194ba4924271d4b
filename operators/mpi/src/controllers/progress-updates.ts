import { type Condition, type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import type { Status } from "./job-status.ts";

/** Minimum interval of updates that show the progress of a job's Pods only, in milliseconds. */
export const progressIntervalMs = 1000;

/** Limits the rate of status updates of jobs. A start takes a tenth of a second, and its steps would take as many writes as its Pods. */
export class ProgressUpdates {
  /** Monotonic times of the last updates, by job. */
  readonly #writtenAt = new Map<string, number>();

  /** Time until a status may be written: 0 if it differs from the previous one in more than progress. `now` is monotonic. */
  delayMs(job: string, before: DeepReadonly<Status> | undefined, status: Status, now: number): number {
    const writtenAt = this.#writtenAt.get(job);
    if (writtenAt === undefined || !jsonEquals(essence(before), essence(status))) return 0;
    return Math.max(writtenAt + progressIntervalMs - now, 0);
  }

  /** Records an update. */
  written(job: string, now: number): void {
    this.#writtenAt.set(job, now);
  }

  /** Forgets a job that has ended or was deleted. */
  forget(job: string): void {
    this.#writtenAt.delete(job);
  }
}

/** What must be visible immediately: everything but the names and numbers of Pods, and messages. */
function essence(status: DeepReadonly<Status> | undefined): unknown {
  const { message: _, launcherPodNames: __, workerPodNames: ___, replicaStatuses: ____, queue: _____, ...rest } = status ?? {};
  const conditions = (status?.conditions ?? []) as readonly DeepReadonly<Condition>[];
  return { ...rest, conditions: conditions.map(({ type, status: value }) => ({ type, value })) };
}
