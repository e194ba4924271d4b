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

/** How much of a log is kept. */
export interface RotationPolicy {
  readonly maxBytes: number;
  /** Files in all, the current one included. */
  readonly maxFiles: number;
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** Copies the last `bytes` of a file; `copyFileSync` where all of it is wanted, since the kernel may share the blocks. */
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
 * Rotates one log by copy and truncate when it has outgrown the policy; true when it had. The program holds the file open
 * and appends, so it goes on at the start of the emptied file. What it writes between the copy and the truncate is lost,
 * and of a log that grew far beyond the limit the end is kept. On a full disk the log is emptied without a copy.
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

const shortestPauseMs = 2;
const longestPauseMs = 500;

/** Something that can be closed. */
export interface LogWatch {
  close(): void;
}

/**
 * Keeps logs within their policy while a program writes them itself.
 *
 * An idle log costs nothing: the kernel tells of the first write after a pause (inotify). From then on the files are looked
 * at from time to time, and the pause follows from how fast they grow: half of the time in which the faster one would reach
 * its limit. When nothing was written during a pause, the kernel is asked to tell again. So a flood of small writes wakes
 * the supervisor a few times a second, not once a write.
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
  let lookedAt = monotonic();

  function unwatch(): void {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  }

  /** Rotates what is due and sets the pause to the next look, or waits for the kernel. */
  function look(): void {
    pause = undefined;
    if (closed) return;
    const now = monotonic();
    const elapsed = Math.max(now - lookedAt, 0.1);
    const before = sizes;
    let wait = longestPauseMs;
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
        // The folder is gone (the program was removed) or cannot be written: nothing that this look can do.
      }
      wait = Math.min(wait, ((policy.maxBytes - left) * elapsed) / grown / 2);
      return left;
    });
    lookedAt = now;
    if (grew) {
      unwatch();
      pause = deadlines.after(Math.max(wait, shortestPauseMs), look);
    } else if (watchers.length === 0) {
      listen();
    }
  }

  function wake(): void {
    unwatch();
    if (closed || pause !== undefined) return;
    // The rate so far is unknown: a first, short look finds it out.
    lookedAt = monotonic();
    pause = deadlines.after(shortestPauseMs, look);
  }

  function listen(): void {
    try {
      watchers = paths.map((path) => {
        const watcher = watch(path, { persistent: false }, wake);
        watcher.on("error", wake);
        return watcher;
      });
    } catch {
      // No inotify left on this machine: look at the longest pause instead.
      unwatch();
      pause = deadlines.after(longestPauseMs, look);
      return;
    }
    // Written between the last look and the watch: nobody will tell.
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
