import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, it } from "vitest";
import { killProcessesIn, processesIn } from "./folder-processes.ts";

it("kills the processes that run in a directory, and no others", async () => {
  const folder = await mkdtemp(join(tmpdir(), "processes-"));
  const other = join(folder, "other");
  await mkdir(other);
  const start = async (cwd: string) => {
    const child = spawn("sleep", ["600"], { cwd, stdio: "ignore" });
    await once(child, "spawn");
    return { child, exited: once(child, "exit") };
  };
  const [inside, outside] = [await start(folder), await start(other)];
  await killProcessesIn([folder], systemClock);
  expect((await inside.exited)[1]).toBe("SIGKILL");
  expect(await processesIn([folder, other])).toEqual([outside.child.pid]);
  outside.child.kill("SIGKILL");
  await outside.exited;
  await rm(folder, { recursive: true });
});
