import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openWithReserve } from "./disk-reserve.ts";

let dir: string;
let file: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-reserve-"));
  file = join(dir, ".agent", "reserve");
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

const failure = (code: string): Error =>
  new Error("cannot use the directory", { cause: Object.assign(new Error(code), { code }) });

test("frees the reserved space if the disk is full, and reserves it again", async () => {
  expect(await openWithReserve(file, async () => "first")).toBe("first");
  expect(existsSync(file)).toBe(true);
  let tries = 0;
  const open = async (): Promise<string> => {
    tries++;
    if (existsSync(file)) throw failure("ENOSPC");
    return "second";
  };
  expect([await openWithReserve(file, open), tries, existsSync(file)]).toEqual(["second", 2, true]);
});

test("keeps the reserved space after any other error, and fails if there is none", async () => {
  const refuse = (code: string) => openWithReserve(file, () => Promise.reject(failure(code)));
  await expect(refuse("ENOSPC")).rejects.toThrow("cannot use the directory");
  await openWithReserve(file, async () => {});
  await expect(refuse("EACCES")).rejects.toThrow("cannot use the directory");
  expect(existsSync(file)).toBe(true);
});
