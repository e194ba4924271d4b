import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { watchFile } from "./file-watch.ts";

test("reports a file that appears, disappears or is replaced, including its parent directories", async () => {
  const base = mkdtempSync(join(tmpdir(), "keelson-watch-"));
  const seen: boolean[] = [];
  const path = join(base, "a", "b", "socket");
  const watched = watchFile(path, (exists) => seen.push(exists));
  onTestFinished(() => {
    watched.close();
    rmSync(base, { recursive: true, force: true });
  });
  const expectStates = async (...states: boolean[]): Promise<void> => {
    await expect.poll(() => seen, { timeout: 8_000 }).toEqual(states);
  };
  mkdirSync(join(base, "a", "b"), { recursive: true });
  writeFileSync(path, "");
  await expectStates(true);
  rmSync(path);
  await expectStates(true, false);
  writeFileSync(join(base, "a", "b", "new"), "");
  renameSync(join(base, "a", "b", "new"), path);
  await expectStates(true, false, true);
  writeFileSync(join(base, "a", "b", "other"), "");
  renameSync(join(base, "a", "b", "other"), path);
  await expectStates(true, false, true, true);
  rmSync(join(base, "a"), { recursive: true });
  await expectStates(true, false, true, true, false);
  mkdirSync(join(base, "a", "b"), { recursive: true });
  writeFileSync(path, "");
  await expectStates(true, false, true, true, false, true);
});
