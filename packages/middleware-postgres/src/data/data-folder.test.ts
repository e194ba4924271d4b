import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DataFolder } from "./data-folder.ts";

let home: string;
let data: DataFolder;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "data-"));
  data = new DataFolder(home);
});
afterEach(() => rm(home, { recursive: true, force: true }));

async function write(folder: string, version: string): Promise<void> {
  await mkdir(folder);
  await writeFile(join(folder, "PG_VERSION"), version);
}
const version = (): Promise<string> => readFile(join(data.path, "PG_VERSION"), "utf8");

describe("the data directory", () => {
  it("has no data after a rewind that was interrupted, including for the next agent, until it is replaced", async () => {
    await write(data.path, "old");
    expect(data.hasData).toBe(true);
    await data.markIncomplete();
    const next = new DataFolder(home);
    await next.recover();
    expect([next.hasData, next.isIncomplete]).toEqual([false, true]);
    await write(next.next, "new");
    await next.replace();
    expect([next.hasData, next.isIncomplete, await version()]).toEqual([true, false, "new"]);
    expect(existsSync(join(home, "old"))).toBe(false);
  });

  it("restores the old data if the agent ended before the copy was renamed", async () => {
    await write(data.path, "old");
    await rename(data.path, join(home, "old"));
    await write(data.next, "new");
    await data.recover();
    expect([data.hasData, await version(), existsSync(data.next)]).toEqual([true, "old", false]);
  });

  it("removes old data that was replaced", async () => {
    await write(data.path, "new");
    await write(join(home, "old"), "old");
    await data.recover();
    expect([await version(), existsSync(join(home, "old"))]).toEqual(["new", false]);
  });
});

it("keeps its data if the replacement cannot be renamed, even if the attempt before could not restore it", async () => {
  await write(data.path, "old");
  await expect(data.replace(data.incoming)).rejects.toThrow(/ENOENT/);
  expect(await version()).toBe("old");
  await rename(data.path, join(home, "old"));
  await expect(data.replace(data.incoming)).rejects.toThrow(/ENOENT/);
  expect(await version()).toBe("old");
});

it("keeps its data and discards what was loaded if the agent ends before the data is replaced, and has the new data afterwards", async () => {
  await write(data.path, "old");
  await write(data.incoming, "loaded");
  const next = new DataFolder(home);
  await next.recover();
  expect([await version(), existsSync(data.incoming)]).toEqual(["old", false]);
  await write(data.incoming, "loaded");
  await next.replace(data.incoming);
  expect(await version()).toBe("loaded");
});
