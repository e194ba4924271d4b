import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Says who owns a folder. */
interface Owner {
  readonly pid: number;
  /** Start of the process in the kernel's ticks, where the system tells: a recycled pid is another process. */
  readonly startTime: string;
}

/**
 * Makes this process the one owner of `dir` (made when missing) by a file `lock` with its pid and start time. A lock whose owner
 * is dead is taken over. Returns the release. Throws when a living process, this one included, owns it already.
 */
export function lockFolder(dir: string): () => void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "lock");
  const own: Owner = { pid: process.pid, startTime: startTimeOf(process.pid) ?? "" };
  const text = JSON.stringify(own);
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      writeFileSync(path, text, { flag: "wx", mode: 0o600 });
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
      const owner = readOwner(path);
      if (owner !== undefined && isAlive(owner)) {
        throw new Error(
          `${dir} is in use by process ${owner.pid}: stop it first, or choose another data directory (lock file: ${path})`,
        );
      }
      rmSync(path, { force: true });
      continue;
    }
    // Two that find the same stale lock at the same time: the later one's file stands.
    if (readFileSync(path, "utf8") === text) return () => rmSync(path, { force: true });
  }
  throw new Error(`${dir} is being opened by another process at the same time (lock file: ${path})`);
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
  const startTime = startTimeOf(owner.pid);
  return startTime === undefined || owner.startTime === "" || startTime === owner.startTime;
}

/** Field 22 of `/proc/<pid>/stat`; undefined where there is no such file. */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the program's name in brackets and may contain anything.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
