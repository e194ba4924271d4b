import { readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createLogger, LogFileError } from "./logger.ts";
import { temporaryFolder } from "./testing/temporary-folder.ts";

it("appends to a file that only its owner can read", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "keelson.log");
  createLogger({ level: "info", file }).info({ a: 1 }, "hello");
  await expect.poll(() => readFileSync(file, "utf8")).toContain('"msg":"hello"');
  expect(statSync(file).mode & 0o777).toBe(0o600);
});

it("does not follow a symbolic link", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "keelson.log");
  const target = join(folder.path, "target");
  writeFileSync(target, "");
  symlinkSync(target, file);
  expect(() => createLogger({ level: "info", file })).toThrow(LogFileError);
  expect(readFileSync(target, "utf8")).toBe("");
});
