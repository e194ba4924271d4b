import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readStat } from "../process/proc.ts";
import { programFolder } from "../program/files/program-folder.ts";
import { statusFile } from "./bubblewrap-options.ts";
import { innerProcess } from "./inner-process.ts";

describe.runIf(process.platform === "linux")("waiting for the process inside", () => {
  let base: string;
  let kill: () => void;
  beforeEach(() => {
    base = mkdtempSync(join(tmpdir(), "inner-process-"));
    kill = () => {};
  });
  afterEach(() => {
    kill();
    rmSync(base, { recursive: true, force: true });
  });

  /** The pids of a process and of its child, which has terminated and is not reaped. */
  async function startWithZombie(): Promise<readonly [parent: number, zombie: number]> {
    // A shell may reap its child; sleep does not. So the child terminates after the shell has become sleep.
    const script = "exec 3<&0; cat <&3 >/dev/null & echo $!; exec sleep 600";
    const started = spawn("/bin/sh", ["-c", script], { stdio: ["pipe", "pipe", "inherit"] });
    kill = () => void started.kill("SIGKILL");
    const [line] = await once(started.stdout, "data");
    const zombie = Number(String(line));
    const name = () => readFileSync(`/proc/${started.pid}/comm`, "latin1");
    await expect.poll(name, { timeout: 30_000 }).toBe("sleep\n");
    started.stdin.end();
    await expect.poll(() => readStat(zombie)?.state, { timeout: 30_000 }).toBe("Z");
    return [started.pid ?? 0, zombie];
  }

  /** The error of a wait, and the number of pauses in it. */
  async function wait(wrapper: number, status: string): Promise<{ readonly code: unknown; readonly pauses: number }> {
    const folder = programFolder(base, "a");
    mkdirSync(folder.path);
    writeFileSync(statusFile(folder), status);
    let pauses = 0;
    const after = (_: number, callback: () => void) => {
      pauses++;
      queueMicrotask(callback);
      return { cancel: () => {} };
    };
    const code = await innerProcess(folder, wrapper, { after }).catch((error: { readonly code?: unknown }) => error.code);
    return { code, pauses };
  }

  const reported = (pid: number | undefined): string => `{ "child-pid": ${pid} }\n`;
  const stopped = { code: "NotRunning", pauses: 0 };

  test("stops when the process has been reported and is gone", async () => {
    const { pid } = spawnSync("true");
    expect(await wait(process.pid, reported(pid))).toEqual(stopped);
  });

  test("stops when the process has been reported and is a zombie", async () => {
    const [wrapper, zombie] = await startWithZombie();
    expect(await wait(wrapper, reported(zombie))).toEqual(stopped);
  });

  test("stops when the wrapper is a zombie", async () => {
    const [, zombie] = await startWithZombie();
    expect(await wait(zombie, "")).toEqual(stopped);
  });

  test("continues while the wrapper runs and has reported no process", async () => {
    const { code, pauses } = await wait(process.pid, "");
    expect(code).toBe("NotRunning");
    expect(pauses).toBeGreaterThan(100);
  });
});
