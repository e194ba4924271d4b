import { type FSWatcher, statSync, watch } from "node:fs";
import type { Clock } from "@keelson/api-machinery/time";
import type { Deadline, Deadlines } from "../program/deadlines.ts";
import type { LogRotations, RotationPolicy } from "./rotate-log.ts";

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

const minPauseMs = 2;
const maxPauseMs = 500;

/** What the watches of a driver's logs share. */
export interface LogWatchContext {
  readonly deadlines: Deadlines;
  readonly rotations: Pick<LogRotations, "rotate">;
  readonly clock: Pick<Clock, "monotonic">;
}

/** Watches the size of logs until it is closed. */
export interface LogWatch {
  close(): void;
}

/**
 * Keeps logs within their policy while a program writes them directly.
 *
 * An idle log costs nothing: inotify reports the first write after a pause. From then on the sizes are checked at an interval derived
 * from the growth rate: half the time in which the faster log would reach its limit. If nothing was written during an interval, the
 * watch is armed again. A flood of small writes therefore wakes the supervisor a few times per second, not once per write.
 */
export function watchLogs(paths: readonly string[], policy: RotationPolicy, shared: LogWatchContext): LogWatch {
  const watch = new SizeWatch(paths, policy, shared);
  watch.listen();
  return watch;
}

class SizeWatch implements LogWatch {
  readonly #paths: readonly string[];
  readonly #policy: RotationPolicy;
  readonly #shared: LogWatchContext;
  #watchers: readonly FSWatcher[] = [];
  #pause: Deadline | undefined;
  #isClosed = false;
  #isChecking = false;
  #sizes: readonly number[];
  #checkedAt: number;

  constructor(paths: readonly string[], policy: RotationPolicy, shared: LogWatchContext) {
    this.#paths = paths;
    this.#policy = policy;
    this.#shared = shared;
    this.#sizes = paths.map(() => 0);
    this.#checkedAt = shared.clock.monotonic();
  }

  /** Waits for the next write. */
  listen(): void {
    const wake = (): void => this.#wake();
    try {
      this.#watchers = this.#paths.map((path) => watch(path, { persistent: false }, wake).on("error", wake));
    } catch {
      // The machine is out of inotify watches: poll at the maximum interval.
      this.#unwatch();
      this.#checkAfter(maxPauseMs);
      return;
    }
    // A write between the last check and the watch raises no event.
    if (this.#paths.some((path, index) => sizeOf(path) !== this.#sizes[index])) this.#wake();
  }

  close(): void {
    this.#isClosed = true;
    this.#pause?.cancel();
    this.#unwatch();
  }

  #unwatch(): void {
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  #wake(): void {
    this.#unwatch();
    if (this.#isClosed || this.#isChecking || this.#pause !== undefined) return;
    // The growth rate is unknown: measure it with a short first interval.
    this.#checkedAt = this.#shared.clock.monotonic();
    this.#checkAfter(minPauseMs);
  }

  #checkAfter(pauseMs: number): void {
    this.#pause = this.#shared.deadlines.after(pauseMs, () => void this.#check());
  }

  /** Rotates logs that are due, then schedules the next check or arms the watch. */
  async #check(): Promise<void> {
    this.#pause = undefined;
    if (this.#isClosed) return;
    this.#isChecking = true;
    const elapsedMs = Math.max(this.#shared.clock.monotonic() - this.#checkedAt, 0.1);
    const checks = await Promise.all(
      this.#paths.map((path, index) => this.#checkLog(path, this.#sizes[index] ?? 0, elapsedMs)),
    );
    this.#isChecking = false;
    if (this.#isClosed) return;
    this.#sizes = checks.map(({ size }) => size);
    this.#checkedAt = this.#shared.clock.monotonic();
    if (checks.some(({ hasGrown }) => hasGrown)) {
      this.#unwatch();
      this.#checkAfter(Math.max(Math.min(maxPauseMs, ...checks.map(({ waitMs }) => waitMs)), minPauseMs));
    } else if (this.#watchers.length === 0) this.listen();
  }

  /** Rotates one log if it is due. Returns its size, and how long it may grow at its rate until half of what is left is used. */
  async #checkLog(path: string, last: number, elapsedMs: number): Promise<LogCheck> {
    const size = sizeOf(path);
    if (size === last) return { size, hasGrown: false, waitMs: maxPauseMs };
    const grown = size > last ? size - last : size;
    let left = size;
    if (size > this.#policy.maxBytes) {
      try {
        if (await this.#shared.rotations.rotate(path, this.#policy)) left = 0;
      } catch {
        // The directory was removed with the program, or is not writable.
      }
    }
    return { size: left, hasGrown: true, waitMs: ((this.#policy.maxBytes - left) * elapsedMs) / grown / 2 };
  }
}

/** The result of a check of one log. */
interface LogCheck {
  readonly size: number;
  readonly hasGrown: boolean;
  readonly waitMs: number;
}
