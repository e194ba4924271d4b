import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { createDataFolder } from "./data-folder.ts";

it("creates the directory and its parents, and accepts an existing one", async () => {
  using base = temporaryFolder();
  const folder = join(base.path, "a", "b", "c");
  await createDataFolder(folder);
  await createDataFolder(folder);
  expect(existsSync(folder)).toBe(true);
});

it("closes a directory that other users could read or change", async () => {
  using base = temporaryFolder();
  const folder = join(base.path, "open");
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  await createDataFolder(folder);
  expect(statSync(folder).mode & 0o777).toBe(0o711);
});

it("names the flag, the directory and the reason when creation fails", async () => {
  using base = temporaryFolder();
  const file = join(base.path, "file");
  writeFileSync(file, "");
  await expect(createDataFolder(join(file, "data"))).rejects.toThrow(
    `--data-dir: ${join(file, "data")} cannot be created: ENOTDIR: not a directory`,
  );
});

it.runIf(existsSync("/proc/self"))("rejects instead of hanging on a file system that rejects new directories", async () => {
  await expect(createDataFolder("/proc/none/data")).rejects.toThrow("--data-dir: /proc/none/data cannot be created: ENOENT");
});
