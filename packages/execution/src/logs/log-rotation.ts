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
  let watchers: readonly FSWatcher[] = [];
  let pause: Deadline | undefined;
  let closed = false;
  let sizes = paths.map(() => 0);
  let checkedAt = monotonic();

  function unwatch(): void {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  }

  /** Rotates logs that are due, then schedules the next check or arms the watch. */
  function check(): void {
    pause = undefined;
    if (closed) return;
    const now = monotonic();
    const elapsed = Math.max(now - checkedAt, 0.1);
    const before = sizes;
    let wait = maxPauseMs;
    let grew = false;
    sizes = paths.map((path, index) => {
      const size = sizeOf(path);
      const last = before[index] ?? 0;
      const grown = size >= last ? size - last : size;
      if (size === last) return size;
      grew = true;
      let left = size;
      try {
        if (rotateIfLarge(path, policy)) left = 0;
      } catch {
        // The folder was removed with the program, or is not writable.
      }
      wait = Math.min(wait, ((policy.maxBytes - left) * elapsed) / grown / 2);
      return left;
    });
    checkedAt = now;
    if (grew) {
      unwatch();
      pause = deadlines.after(Math.max(wait, minPauseMs), check);
    } else if (watchers.length === 0) {
      listen();
    }
  }

  function wake(): void {
    unwatch();
    if (closed || pause !== undefined) return;
    // The growth rate is unknown: measure it with a short first interval.
    checkedAt = monotonic();
    pause = deadlines.after(minPauseMs, check);
  }

  function listen(): void {
    try {
      watchers = paths.map((path) => {
        const watcher = watch(path, { persistent: false }, wake);
        watcher.on("error", wake);
        return watcher;
      });
    } catch {
      // The machine is out of inotify watches: poll at the maximum interval.
      unwatch();
      pause = deadlines.after(maxPauseMs, check);
      return;
    }
    // A write between the last check and the watch raises no event.
    if (paths.some((path, index) => sizeOf(path) !== sizes[index])) wake();
  }

  listen();
  return {
    close() {
      closed = true;
      pause?.cancel();
      unwatch();
    },
  };
}
