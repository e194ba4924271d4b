import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { watchFile } from "./file-watch.ts";

test("a file is seen to come and go, with the folders above it", async () => {
  const base = mkdtempSync(join(tmpdir(), "keelson-watch-"));
  const seen: boolean[] = [];
  const path = join(base, "a", "b", "socket");
  const watched = watchFile(path, (isThere) => seen.push(isThere));
  onTestFinished(() => {
    watched.close();
    rmSync(base, { recursive: true, force: true });
  });
  const become = async (...states: boolean[]): Promise<void> => {
    await expect.poll(() => seen, { timeout: 8_000 }).toEqual(states);
  };
  mkdirSync(join(base, "a", "b"), { recursive: true });
  writeFileSync(path, "");
  await become(true);
  rmSync(path);
  await become(true, false);
  writeFileSync(join(base, "a", "b", "new"), "");
  renameSync(join(base, "a", "b", "new"), path);
  await become(true, false, true);
  writeFileSync(join(base, "a", "b", "other"), "");
  renameSync(join(base, "a", "b", "other"), path);
  await become(true, false, true, true);
  rmSync(join(base, "a"), { recursive: true });
  await become(true, false, true, true, false);
  mkdirSync(join(base, "a", "b"), { recursive: true });
  writeFileSync(path, "");
  await become(true, false, true, true, false, true);
});
