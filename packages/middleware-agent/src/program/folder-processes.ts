import { readdir, readlink, realpath } from "node:fs/promises";
import { type Clock, sleep } from "@keelson/api-machinery/time";

const pollMs = 20;

/** Ids of the processes whose working directory is one of the directories, without the calling process. */
export async function processesIn(folders: readonly string[]): Promise<readonly number[]> {
  const paths = new Set(await Promise.all(folders.map((folder) => realpath(folder).catch(() => folder))));
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const found = await Promise.all(
    pids.map(async (pid) => {
      // A process that has ended meanwhile has no readable link. Nor has one of another user, unless the agent has CAP_SYS_PTRACE.
      const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
      return paths.has(cwd) ? [Number(pid)] : [];
    }),
  );
  return found.flat();
}

/**
 * Kills all processes whose working directory is one of the directories, and waits until none is left. The processes that serve the clients
 * of a program can outlive it, and still complete what they are doing. An agent of root without CAP_SYS_PTRACE does not find processes of
 * another user.
 */
export async function killProcessesIn(folders: readonly string[], clock: Clock): Promise<void> {
  for (;;) {
    const pids = await processesIn(folders);
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has ended in the meantime.
      }
    }
    await sleep(clock, pollMs);
  }
}
