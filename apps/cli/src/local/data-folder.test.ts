import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { makeDataFolder } from "./data-folder.ts";

it("makes the folder and those above it, and takes one that is there", async () => {
  using base = temporaryFolder();
  const folder = join(base.path, "a", "b", "c");
  await makeDataFolder(folder);
  await makeDataFolder(folder);
  expect(existsSync(folder)).toBe(true);
});

it("names the folder, the reason and the flag where it cannot be made", async () => {
  using base = temporaryFolder();
  const file = join(base.path, "file");
  writeFileSync(file, "");
  await expect(makeDataFolder(join(file, "data"))).rejects.toThrow(
    `--data-dir: ${join(file, "data")} cannot be made: ENOTDIR: not a directory`,
  );
});

it.runIf(existsSync("/proc/self"))("fails, rather than never to answer, where a file system makes no folders", async () => {
  await expect(makeDataFolder("/proc/none/data")).rejects.toThrow("--data-dir: /proc/none/data cannot be made: ENOENT");
});
