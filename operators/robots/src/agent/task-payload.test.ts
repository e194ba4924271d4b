import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { writePayload } from "./task-payload.ts";

let base: string;
let dir: string;
const base64 = Buffer.from("hello").toString("base64");

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "keelson-payload-"));
  dir = join(base, "task");
  mkdirSync(dir);
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

it("writes the payload, also below folders, and replaces an earlier one", async () => {
  await writePayload(dir, { path: "in/data.json", base64 }, undefined);
  await writePayload(dir, { path: "in/data.json", base64 }, undefined);
  expect(readFileSync(join(dir, "in/data.json"), "utf8")).toBe("hello");
});

it("does not follow links that an earlier attempt left", async () => {
  const outside = join(base, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "safe");
  symlinkSync(join(outside, "file"), join(dir, "file"));
  symlinkSync(outside, join(dir, "folder"));
  await writePayload(dir, { path: "file", base64 }, undefined);
  expect(readFileSync(join(outside, "file"), "utf8")).toBe("safe");
  expect(readFileSync(join(dir, "file"), "utf8")).toBe("hello");
  await expect(writePayload(dir, { path: "folder/new", base64 }, undefined)).rejects.toThrow("is not a folder");
  expect(existsSync(join(outside, "new"))).toBe(false);
});
