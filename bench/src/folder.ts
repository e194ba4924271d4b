import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Short, because sockets are created below these directories and their paths are limited to about 100 bytes. */
const prefixOf = (pid: number): string => `kbench${pid}-`;

/** Creates a directory of this run of the benchmarks. {@link removeLeftovers} finds it by its name. */
export function createFolder(): string {
  return mkdtempSync(join(tmpdir(), prefixOf(process.pid)));
}

/** Calls `use` with a new directory, then kills the processes that still use the directory and removes it. */
export async function withFolder<T>(use: (dir: string) => Promise<T>): Promise<T> {
  const dir = createFolder();
  try {
    return await use(dir);
  } finally {
    removeFolder(dir);
  }
}

/**
 * Kills the processes that use a directory and removes it. Pods, Redis servers and sandbox agents outlive the `keelson up` that
 * started them by design, so stopping `keelson up` is not enough.
 */
export function removeFolder(dir: string): void {
  killProcessesOf(dir);
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
}

/** Removes everything that this run created. Synchronous, so that it can be called when the process exits. */
export function removeLeftovers(): void {
  const prefix = prefixOf(process.pid);
  killProcessesOf(join(tmpdir(), prefix));
  for (const name of readdirSync(tmpdir())) {
    if (name.startsWith(prefix)) rmSync(join(tmpdir(), name), { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Kills until none is left: a supervisor may start another process while it is being killed. */
function killProcessesOf(path: string): void {
  for (let round = 0; round < 20; round++) {
    const pids = processesOf(path);
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has exited.
      }
    }
    // Gives the kernel time to remove them from /proc.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
  }
}

/** Processes whose arguments, environment or working directory contain `path`, except this one and zombies. */
function processesOf(path: string): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => {
      try {
        const texts = [
          readFileSync(`/proc/${pid}/cmdline`, "utf8"),
          readFileSync(`/proc/${pid}/environ`, "utf8"),
          readlinkSync(`/proc/${pid}/cwd`),
        ];
        return texts.some((text) => text.includes(path));
      } catch {
        // It has exited, or belongs to another user.
        return false;
      }
    });
}
