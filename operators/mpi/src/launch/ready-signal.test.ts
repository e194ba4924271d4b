import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createReadySignal, readyPipePath, readyPipeVariable, readyProbeCommand } from "./ready-signal.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "ready-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const environment = () => ({ TMPDIR: folder, [readyPipeVariable]: "job-1" });
const path = (): string => readyPipePath(environment()) ?? "";

function probe(): ChildProcess {
  const [shell = "", ...words] = readyProbeCommand;
  return spawn(shell, words, { env: { ...process.env, ...environment() }, stdio: "ignore" });
}
const exitOf = async (child: ChildProcess): Promise<number> => ((await once(child, "exit")) as [number])[0];

it("makes current and later probes succeed once the launcher is ready, whichever started first", async () => {
  const early = probe();
  await expect.poll(() => existsSync(path())).toBe(true);
  const signal = createReadySignal(path());
  const middle = probe();
  expect([early.exitCode, middle.exitCode]).toEqual([null, null]);
  const exits = [exitOf(early), exitOf(middle)];
  signal.ready();
  expect([...(await Promise.all(exits)), await exitOf(probe())]).toEqual([0, 0, 0]);
  signal.close();
  signal.close();
  expect(readdirSync(folder)).toEqual([]);
});

it("makes a probe fail if the launcher ends without being ready", async () => {
  const signal = createReadySignal(path());
  const waiting = probe();
  const exit = exitOf(waiting);
  // If the pipe were closed before the shell has opened it, the shell would wait for another launcher.
  await expect.poll(() => readlinkSync(`/proc/${waiting.pid}/fd/0`)).toBe(path());
  signal.close();
  expect(await exit).toBe(1);
});

it("writes only to its own pipe", () => {
  const target = join(folder, "precious");
  writeFileSync(target, "");
  expect(() => createReadySignal(target)).toThrow(/is not the launcher.s pipe/);
  symlinkSync(target, path());
  expect(() => createReadySignal(path())).toThrow(/ELOOP/);
});

it.each(["../x", "a/b", "", undefined])("rejects %j as the name of a pipe", (name) => {
  const act = (): unknown => readyPipePath({ [readyPipeVariable]: name });
  if (name) expect(act).toThrow(/not a valid file name/);
  else expect(act()).toBeUndefined();
});
