import { execFile } from "node:child_process";
import { readdirSync, realpathSync, rmdirSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { mountPoints, mountPointsBelow } from "../../files/mount-points.ts";
import type { ProgramFolder } from "./program-folder.ts";

const run = promisify(execFile);

interface QueuedUnmount {
  readonly mounts: readonly string[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Unmounts file systems with a size limit. Concurrent calls share one umount(8). */
export class Unmounter {
  #queue: QueuedUnmount[] = [];
  #isRunning = false;
  readonly #mountPoints: () => readonly string[];

  /** `readMountPoints` returns all mount points of this process's mount namespace, as the kernel names them. */
  constructor(readMountPoints = mountPoints) {
    this.#mountPoints = readMountPoints;
  }

  /** Unmounts everything below a directory. */
  unmountBelow(path: string): Promise<void> {
    return this.unmount(mountPointsBelow(path));
  }

  /** Unmounts these mount points, as the kernel names them. Rejects if one of them cannot be unmounted. */
  unmount(mounts: readonly string[]): Promise<void> {
    if (mounts.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#queue.push({ mounts, resolve, reject });
      if (!this.#isRunning) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#isRunning = true;
    for (let batch = this.#queue.splice(0); batch.length > 0; batch = this.#queue.splice(0)) {
      try {
        await run("umount", ["--lazy", ...batch.flatMap(({ mounts }) => mounts)]);
        for (const { resolve } of batch) resolve();
      } catch {
        await this.#retry(batch);
      }
    }
    this.#isRunning = false;
  }

  /** Finds the callers whose mounts failed. The mounts of the others have been unmounted. */
  async #retry(batch: readonly QueuedUnmount[]): Promise<void> {
    // Reading the mount points takes milliseconds when there are thousands, and blocks.
    const mounted = new Set(this.#mountPoints());
    await Promise.all(
      batch.map(async ({ mounts, resolve, reject }) => {
        const left = mounts.filter((mount) => mounted.has(mount));
        try {
          if (left.length > 0) await run("umount", ["--lazy", ...left]);
          resolve();
        } catch (error) {
          reject(error);
        }
      }),
    );
  }
}

/**
 * Copies without following links, then swaps the copy with the mount. A crash in between leaves the mount, and the next attempt repeats.
 * Files that cannot be copied, such as those with paths that are too long, are dropped: they would keep their memory without a limit. cp
 * prints a line for each of them, which could exceed the maximum output of a command.
 */
const keepScript = `
rm -rf "$1.kept" && { cp -a "$1" "$1.kept" 2>/dev/null || [ -d "$1.kept" ]; } && umount --lazy "$@" && rmdir "$1" && mv "$1.kept" "$1"
`;

/**
 * Moves the work directory of a terminated program from memory, where its size limit kept it, to the disk, and drops its `/tmp`. Does nothing
 * for a program without a size limit.
 */
export async function keepWork({ path, work }: ProgramFolder, unmounter: Unmounter): Promise<void> {
  const mounts = mountPointsBelow(path);
  if (mounts.length === 0) return;
  const target = join(realpathSync(path), basename(work));
  const others = mounts.filter((mount) => mount !== target);
  if (!mounts.includes(target) || readdirSync(target).length === 0) await unmounter.unmount(mounts);
  else await run("/bin/sh", ["-c", keepScript, "keelson-keep", target, ...others]);
  // Programs that were started meanwhile have copies of the mounts in their own namespaces. Those end with the mount points.
  for (const path of others) removeMountPoint(path);
}

function removeMountPoint(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // Removed with the program's directory.
  }
}
