import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createCheckpointFolder, runBefore } from "./checkpoint.ts";
import { programVariables } from "./pod-environment.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "checkpoint-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the directory of checkpoints", () => {
  it("is created, and kept if it exists", () => {
    const path = join(folder, "jobs", "pi");
    for (let attempt = 0; attempt < 2; attempt += 1) createCheckpointFolder({ [programVariables.checkpointFolder]: path });
    expect(existsSync(path)).toBe(true);
    expect(() => createCheckpointFolder({})).not.toThrow();
    writeFileSync(join(folder, "file"), "");
    const below = { [programVariables.checkpointFolder]: join(folder, "file", "pi") };
    expect(() => createCheckpointFolder(below)).toThrow(/checkpoint directory: .*ENOTDIR/);
  });
});

describe("the command before a restart", () => {
  const run = (words: string[], signal = new AbortController().signal) =>
    runBefore(words, { workingDirectory: folder, environment: { PATH: "/usr/bin:/bin", A: "1" }, signal });

  it("runs in the working directory with the program's environment", async () => {
    await run(["sh", "-c", 'printf %s "$A" >result']);
    expect(readFileSync(join(folder, "result"), "utf8")).toBe("1");
  });

  it("fails the launch if it fails, does not exist or is stopped", async () => {
    await expect(run(["sh", "-c", "exit 3"])).rejects.toThrow("the command before the restart failed: exit code 3");
    await expect(run([join(folder, "missing")])).rejects.toThrow(/ENOENT/);
    await expect(run(["sleep", "600"], AbortSignal.abort())).rejects.toThrow(/abort/);
  });
});
