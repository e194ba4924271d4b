import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StorageError } from "./storage-error.ts";

/** The owner of a directory. */
interface Owner {
  readonly pid: number;
  /** Start of the process in kernel ticks, if the system provides it: a recycled pid is another process. */
  readonly startTime: string;
}

/** The name of the lock file. */
const lockName = "lock";

/**
 * Makes this process the owner of `dir` (created if missing) through a lock file with its pid and start time. The lock of a dead
 * process is replaced. Returns the release.
 *
 * **Errors**: throws a {@link StorageError} `InUse` if a living process, this one included, owns the directory.
 */
export function lockFolder(dir: string): () => void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, lockName);
  const own: Owner = { pid: process.pid, startTime: statusOf(process.pid)?.startTime ?? "" };
  const text = JSON.stringify(own);
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      writeFileSync(path, text, { flag: "wx", mode: 0o600 });
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
      const pid = livingOwner(dir);
      if (pid !== undefined) {
        const advice = "stop it first, or choose another data directory";
        throw new StorageError("InUse", `${dir} is in use by process ${pid}: ${advice} (lock file: ${path})`);
      }
      rmSync(path, { force: true });
      continue;
    }
    // If two processes find the same stale lock at the same time, the later file wins.
    if (readFileSync(path, "utf8") === text) return () => rmSync(path, { force: true });
  }
  throw new StorageError("InUse", `${dir} is being opened by another process at the same time (lock file: ${path})`);
}

/** The pid of the living process that owns `dir`, if there is one. */
export function livingOwner(dir: string): number | undefined {
  const owner = readOwner(join(dir, lockName));
  return owner !== undefined && isAlive(owner) ? owner.pid : undefined;
}

function readOwner(path: string): Owner | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof value !== "object" || value === null || !("pid" in value) || typeof value.pid !== "number") return undefined;
    const startTime = "startTime" in value && typeof value.startTime === "string" ? value.startTime : "";
    return { pid: value.pid, startTime };
  } catch {
    return undefined;
  }
}

function isAlive(owner: Owner): boolean {
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
  const status = statusOf(owner.pid);
  if (status === undefined) return true;
  // A zombie has released everything and only waits for its parent to reap it.
  if (status.state === "Z" || status.state === "X") return false;
  return owner.startTime === "" || status.startTime === owner.startTime;
}

/** Fields 3 (state) and 22 (start time) of `/proc/<pid>/stat`; undefined where that file does not exist. */
function statusOf(pid: number): { readonly state: string | undefined; readonly startTime: string | undefined } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name in brackets and may contain anything.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0], startTime: fields[19] };
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
