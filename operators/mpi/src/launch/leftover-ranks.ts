import { readdirSync, readFileSync } from "node:fs";

/**
 * Kills the ranks that a daemon has left behind: all processes with the worker's folder in their environment. MPICH's daemon leaves its ranks
 * running if it is stopped while its connection to `mpiexec` is only silent.
 */
export function killLeftoverRanks(folder: string): void {
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid || !hasInEnvironment(name, folder)) continue;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has exited.
    }
  }
}

function hasInEnvironment(pid: string, folder: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(folder);
  } catch {
    return false; // It has exited, or belongs to another user.
  }
}
