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

it("lets a probe succeed when the launcher is ready, whichever of them came first, and later probes too", async () => {
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

it("lets a probe fail when the launcher ends without having been ready", async () => {
  const signal = createReadySignal(path());
  const waiting = probe();
  const exit = exitOf(waiting);
  // Closing before the shell has opened the pipe would leave it to wait for another launcher.
  await expect.poll(() => readlinkSync(`/proc/${waiting.pid}/fd/0`)).toBe(path());
  signal.close();
  expect(await exit).toBe(1);
});

it("writes into nothing but a pipe of its own", () => {
  const target = join(folder, "precious");
  writeFileSync(target, "");
  expect(() => createReadySignal(target)).toThrow(/is in the way/);
  symlinkSync(target, path());
  expect(() => createReadySignal(path())).toThrow(/ELOOP/);
});

it.each(["../x", "a/b", "", undefined])("takes %j for no name of a pipe", (name) => {
  const act = (): unknown => readyPipePath({ [readyPipeVariable]: name });
  if (name) expect(act).toThrow(/no file name/);
  else expect(act()).toBeUndefined();
});
