import { statSync, watch } from "node:fs";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { LogTimes } from "./line-filter.ts";

interface Mark {
  /** The file had this size ... */
  readonly size: number;
  /** ... at this time. */
  readonly at: number;
}

const pauseMs = 100;
const maxMarks = 2_000;

/**
 * Records when the parts of a log were written. Programs write their logs without times, so the size of a growing file is recorded
 * every 100 ms at most. What was written while nothing watched counts as written when it was noticed. Marks are kept in memory, older
 * ones at a lower resolution.
 */
export class LogClock implements LogTimes {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #startedAt: number;
  #marks: Mark[] = [];
  #watcher: ReturnType<typeof watch> | undefined;
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(path: string, startedAt: number, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
    this.#startedAt = startedAt;
    const size = this.#size();
    if (size > 0) this.#marks.push({ size, at: this.#written() });
    this.#listen();
  }

  at(offset: number): number {
    this.#update();
    let low = 0;
    let high = this.#marks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#marks[middle]?.size ?? 0) > offset) high = middle;
      else low = middle + 1;
    }
    return this.#marks[low]?.at ?? this.#marks.at(-1)?.at ?? this.#startedAt;
  }

  close(): void {
    this.#isClosed = true;
    this.#watcher?.close();
    this.#timer?.cancel();
  }

  #size(): number {
    try {
      return statSync(this.#path).size;
    } catch {
      return 0;
    }
  }

  #written(): number {
    try {
      return Math.max(statSync(this.#path).mtimeMs, this.#startedAt);
    } catch {
      return this.#startedAt;
    }
  }

  /** Records the current size. Returns whether it has changed. */
  #update(): boolean {
    const size = this.#size();
    const last = this.#marks.at(-1)?.size ?? 0;
    if (size === last) return false;
    // Rotated: offsets start again.
    if (size < last) this.#marks = [];
    this.#marks.push({ size, at: this.#written() });
    if (this.#marks.length > maxMarks) {
      const half = this.#marks.length >> 1;
      this.#marks = this.#marks.filter((_, index) => index >= half || index % 2 === 1);
    }
    return true;
  }

  #listen(): void {
    if (this.#isClosed || this.#watcher !== undefined) return;
    try {
      this.#watcher = watch(this.#path, { persistent: false }, () => this.#wake());
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      // No inotify instance is available: times have the resolution of the reads.
    }
    if (this.#update()) this.#wake();
  }

  #wake(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    if (this.#isClosed || this.#timer !== undefined) return;
    this.#update();
    this.#timer = this.#clock.setTimer(
      pauseMs,
      () => {
        this.#timer = undefined;
        if (this.#update()) this.#wake();
        else this.#listen();
      },
      { background: true },
    );
  }
}
