import { readFile, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@keelson/api-machinery/time";
import { type EngineOptions, killProcessesIn } from "@keelson/middleware-agent";

const timeoutMs = 15_000;
const pollMs = 50;

/**
 * Shuts down a server that an earlier agent left behind. Then kills what has not ended: backends that have outlived their server, and
 * tools that have outlived their agent.
 */
export async function endLeftovers(
  home: string,
  dataFolder: string,
  others: readonly string[],
  { clock, log }: Pick<EngineOptions, "clock" | "log">,
): Promise<void> {
  const deadline = clock.monotonic() + timeoutMs;
  for (let attempt = 0; clock.monotonic() <= deadline; attempt++) {
    const pid = await findServer(dataFolder);
    if (pid === undefined) break;
    if (attempt === 0) log.warn({ pid }, "shutting down a server that an earlier agent left behind");
    try {
      process.kill(pid, attempt === 0 ? "SIGINT" : clock.monotonic() > deadline - timeoutMs / 2 ? "SIGQUIT" : 0);
    } catch {
      // It has ended in the meantime.
    }
    await sleep(clock, pollMs);
  }
  await killProcessesIn([home, dataFolder, ...others], clock);
  await removeStaleLock(dataFolder);
}

/**
 * Removes the lock of a server that has ended, if its process id belongs to another process: a container that was restarted counts from the
 * same ids, and PostgreSQL would refuse to start. A process whose working directory cannot be read keeps its lock.
 */
async function removeStaleLock(dataFolder: string): Promise<void> {
  const file = join(dataFolder, "postmaster.pid");
  const [line = ""] = (await readFile(file, "utf8").catch(() => "")).split("\n");
  if (!(Number(line) > 0)) return;
  // A zombie has no working directory.
  const cwd = await readlink(`/proc/${line}/cwd`).catch(({ code }: NodeJS.ErrnoException) =>
    code === "ENOENT" ? "" : undefined,
  );
  if (cwd !== undefined && cwd !== dataFolder) await rm(file, { force: true });
}

async function findServer(dataFolder: string): Promise<number | undefined> {
  try {
    const [line = ""] = (await readFile(join(dataFolder, "postmaster.pid"), "utf8")).split("\n");
    const pid = Number(line);
    // The id may belong to another process by now.
    return pid > 0 && (await readlink(`/proc/${pid}/cwd`)) === dataFolder ? pid : undefined;
  } catch {
    return undefined;
  }
}
