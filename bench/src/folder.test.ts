import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createFolder, removeFolder, removeLeftovers, withFolder } from "./folder.ts";

/** Starts a detached process that ignores SIGTERM. */
async function startStubborn(options: {
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  readonly argument?: string;
}) {
  const { cwd, env, argument = "" } = options;
  const child = spawn("sh", ["-c", "trap '' TERM; echo up; while :; do sleep 1; done", "stubborn", argument], {
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
    ...(cwd === undefined ? {} : { cwd }),
    env: { ...process.env, ...env },
  });
  const exited = once(child, "exit");
  await once(child.stdout, "data");
  return { exited };
}

describe.runIf(process.platform === "linux")("a directory of the benchmarks", () => {
  test.each([
    ["arguments", (dir: string) => ({ argument: join(dir, "data") })],
    ["environment", (dir: string) => ({ env: { DATA: dir } })],
    ["working directory", (dir: string) => ({ cwd: dir })],
  ])("is removed with the processes that have it in their %s", async (_, optionsOf) => {
    const dir = createFolder();
    const { exited } = await startStubborn(optionsOf(dir));
    removeFolder(dir);
    expect(await exited).toEqual([null, "SIGKILL"]);
    expect(existsSync(dir)).toBe(false);
  });

  test("is removed after an error", async () => {
    let used = "";
    const failing = withFolder((dir) => {
      used = dir;
      return Promise.reject(new Error("no"));
    });
    await expect(failing).rejects.toThrow("no");
    expect(existsSync(used)).toBe(false);
  });

  test("is removed with all others when the process exits", () => {
    const dirs = [createFolder(), createFolder()];
    removeLeftovers();
    expect(dirs.map((dir) => existsSync(dir))).toEqual([false, false]);
  });
});
