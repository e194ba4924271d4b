import { readdirSync, readFileSync } from "node:fs";

/** Passes over all processes, at most. A process can start another one after it was missed or before it is killed. */
const maxPasses = 10;

/**
 * Kills the ranks that a daemon has left behind: all processes with the worker's directory in their environment. MPICH's daemon leaves its ranks
 * running if it is stopped while its connection to `mpiexec` is only silent.
 */
export function killLeftoverRanks(folder: string): void {
  for (let pass = 0; pass < maxPasses && killRanks(folder); pass++);
}

/** Kills the ranks that are running. Returns whether there was one. */
function killRanks(folder: string): boolean {
  let hasKilled = false;
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid || !hasInEnvironment(name, folder)) continue;
    try {
      process.kill(pid, "SIGKILL");
      hasKilled = true;
    } catch {
      // It has exited.
    }
  }
  return hasKilled;
}

function hasInEnvironment(pid: string, folder: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").includes(folder);
  } catch {
    return false; // It has exited, or belongs to another user.
  }
}
