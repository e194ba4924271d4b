import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, expect, it } from "vitest";
import { discardData } from "./discard-data.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "discard-data-"));
  await writeFile(join(folder, "dump.rdb"), "data");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

it("discards the data of a volume once for every request", async () => {
  await discardData(folder, undefined, silentLogger);
  expect(await readdir(folder)).toEqual(["dump.rdb"]);
  await discardData(folder, "1", silentLogger);
  expect(await readdir(folder)).toEqual(["keelson-rebuild.json"]);
  await writeFile(join(folder, "dump.rdb"), "copy");
  await discardData(folder, "1", silentLogger);
  expect(await readdir(folder)).toContain("dump.rdb");
  await discardData(folder, "2", silentLogger);
  expect(await readdir(folder)).toEqual(["keelson-rebuild.json"]);
});
