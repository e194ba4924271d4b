import { readdirSync, readFileSync } from "node:fs";
import { link, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";
import { errorCode } from "./file-error.ts";
import { isAlive, readBootId, readStat } from "../process/proc.ts";

/** A held lock. */
export interface FolderLock {
  release(): Promise<void>;
}

interface Holder {
  readonly pid: number;
  readonly startTime: number;
  readonly bootId: string;
}

const lockName = /^\.lock-([1-9]\d{0,14})$/;

function generations(dir: string): readonly number[] {
  return readdirSync(dir)
    .flatMap((name) => {
      const match = lockName.exec(name);
      return match === null ? [] : [Number(match[1])];
    })
    .sort((a, b) => b - a);
}

function readHolder(path: string): Holder | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof value !== "object" || value === null) return undefined;
    const { pid, startTime, bootId } = value as Record<string, unknown>;
    return typeof pid === "number" && typeof startTime === "number" && typeof bootId === "string"
      ? { pid, startTime, bootId }
      : undefined;
  } catch {
    // Damaged, or removed by a newer holder: no known process holds it.
    return undefined;
  }
}

/** The process that wrote the lock of a generation, if it still runs. */
function liveHolder(dir: string, generation: number): Holder | undefined {
  const holder = generation === 0 ? undefined : readHolder(join(dir, `.lock-${generation}`));
  return holder?.bootId === readBootId() && isAlive(holder.pid, holder.startTime) ? holder : undefined;
}

/** The process that holds a directory's lock; undefined if none does, or if the directory does not exist. */
export function folderHolder(dir: string): number | undefined {
  try {
    return liveHolder(dir, generations(dir)[0] ?? 0)?.pid;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Locks a directory for this process. Throws `FolderInUse`, naming the process that holds it.
 *
 * Each holder creates its own file, one generation above the last, with `link`, which fails if the name exists: of several
 * processes that find a dead holder, one wins. The newest generation is never removed by its holder, only marked as released, and a
 * contender checks for a newer one after its `link`, so a slow contender finds that it lost. (Removing a dead holder's file first, as
 * lock files often do, can remove a live holder's file.)
 */
export async function lockFolder(dir: string, random: () => number): Promise<FolderLock> {
  const bootId = readBootId();
  const me: Holder = { pid: process.pid, startTime: readStat(process.pid)?.startTime ?? 0, bootId };
  for (;;) {
    const last = generations(dir)[0] ?? 0;
    const holder = liveHolder(dir, last);
    if (holder !== undefined) {
      throw new ExecutionError("FolderInUse", `${dir} is in use by process ${holder.pid}; stop it or use another directory`);
    }
    const mine = last + 1;
    const path = join(dir, `.lock-${mine}`);
    const fresh = join(dir, `.locking-${process.pid}-${Math.floor(random() * 2 ** 48).toString(36)}`);
    await writeFile(fresh, JSON.stringify(me), { mode: 0o600 });
    try {
      await link(fresh, path);
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
      continue;
    } finally {
      await rm(fresh, { force: true });
    }
    const now = generations(dir);
    if ((now[0] ?? 0) > mine) {
      await rm(path, { force: true });
      continue;
    }
    for (const older of now.filter((generation) => generation < mine)) await rm(join(dir, `.lock-${older}`), { force: true });
    return { release: () => writeFile(path, "released") };
  }
}
