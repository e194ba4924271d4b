import {
  closeSync,
  constants,
  copyFileSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  watch,
  writeSync,
} from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Deadline, Deadlines } from "../program/deadlines.ts";

/** Limits of a log's size. */
export interface RotationPolicy {
  readonly maxBytes: number;
  /** Number of files, including the current one. */
  readonly maxFiles: number;
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** Copies the last `bytes` of a file; uses `copyFileSync` for a whole file, which lets the file system share blocks. */
function copyEnd(from: string, to: string, bytes: number): void {
  const size = sizeOf(from);
  if (size <= bytes) {
    copyFileSync(from, to, constants.COPYFILE_FICLONE);
    return;
  }
  const source = openSync(from, "r");
  const target = openSync(to, "w", 0o640);
  try {
    const chunk = Buffer.allocUnsafe(Math.min(bytes, 1 << 20));
    for (let done = 0; done < bytes; ) {
      const read = readSync(source, chunk, 0, Math.min(chunk.length, bytes - done), size - bytes + done);
      if (read === 0) break;
      writeSync(target, chunk, 0, read);
      done += read;
    }
  } finally {
    closeSync(source);
    closeSync(target);
  }
}

/**
 * Rotates one log by copy and truncate if it exceeds the policy; returns whether it did. The program holds the file open for appending,
 * so it continues at the start of the truncated file. Output written between the copy and the truncation is lost. Of a log far above
 * the limit the end is kept. On a full disk the log is truncated without a copy.
 */
export function rotateIfLarge(path: string, policy: RotationPolicy): boolean {
  if (sizeOf(path) <= policy.maxBytes) return false;
  try {
    for (let index = policy.maxFiles - 1; index > 1; index--) {
      if (sizeOf(`${path}.${index - 1}`) > 0) renameSync(`${path}.${index - 1}`, `${path}.${index}`);
    }
    if (policy.maxFiles > 1) copyEnd(path, `${path}.1`, policy.maxBytes);
  } catch {
    rmSync(`${path}.1`, { force: true });
  }
  truncateSync(path, 0);
  return true;
}

const minPauseMs = 2;
const maxPauseMs = 500;

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
export function watchLogs(
  paths: readonly string[],
  policy: RotationPolicy,
  deadlines: Deadlines,
  monotonic: () => number,
): LogWatch {
  const watch = new SizeWatch(paths, policy, deadlines, monotonic);
  watch.listen();
  return watch;
}

class SizeWatch implements LogWatch {
  readonly #paths: readonly string[];
  readonly #policy: RotationPolicy;
  readonly #deadlines: Deadlines;
  readonly #monotonic: () => number;
  #watchers: readonly FSWatcher[] = [];
  #pause: Deadline | undefined;
  #isClosed = false;
  #sizes: readonly number[];
  #checkedAt: number;

  constructor(paths: readonly string[], policy: RotationPolicy, deadlines: Deadlines, monotonic: () => number) {
    this.#paths = paths;
    this.#policy = policy;
    this.#deadlines = deadlines;
    this.#monotonic = monotonic;
    this.#sizes = paths.map(() => 0);
    this.#checkedAt = monotonic();
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
    if (this.#isClosed || this.#pause !== undefined) return;
    // The growth rate is unknown: measure it with a short first interval.
    this.#checkedAt = this.#monotonic();
    this.#checkAfter(minPauseMs);
  }

  #checkAfter(pauseMs: number): void {
    this.#pause = this.#deadlines.after(pauseMs, () => this.#check());
  }

  /** Rotates logs that are due, then schedules the next check or arms the watch. */
  #check(): void {
    this.#pause = undefined;
    if (this.#isClosed) return;
    const now = this.#monotonic();
    const elapsedMs = Math.max(now - this.#checkedAt, 0.1);
    const checks = this.#paths.map((path, index) => this.#checkLog(path, this.#sizes[index] ?? 0, elapsedMs));
    this.#sizes = checks.map(({ size }) => size);
    this.#checkedAt = now;
    if (checks.some(({ hasGrown }) => hasGrown)) {
      this.#unwatch();
      this.#checkAfter(Math.max(Math.min(maxPauseMs, ...checks.map(({ waitMs }) => waitMs)), minPauseMs));
    } else if (this.#watchers.length === 0) this.listen();
  }

  /** Rotates one log if it is due. Returns its size, and how long it may grow at its rate until half of what is left is used. */
  #checkLog(
    path: string,
    last: number,
    elapsedMs: number,
  ): { readonly size: number; readonly hasGrown: boolean; readonly waitMs: number } {
    const size = sizeOf(path);
    if (size === last) return { size, hasGrown: false, waitMs: maxPauseMs };
    const grown = size > last ? size - last : size;
    let left = size;
    try {
      if (rotateIfLarge(path, this.#policy)) left = 0;
    } catch {
      // The folder was removed with the program, or is not writable.
    }
    return { size: left, hasGrown: true, waitMs: ((this.#policy.maxBytes - left) * elapsedMs) / grown / 2 };
  }
}
