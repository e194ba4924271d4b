import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
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

it("writes the payload, also below directories, and replaces an earlier one", () => {
  writePayload(dir, { path: "in/data.json", base64 }, undefined);
  writePayload(dir, { path: "in/data.json", base64 }, undefined);
  expect(readFileSync(join(dir, "in/data.json"), "utf8")).toBe("hello");
});

it("does not write outside the directory by links that an earlier attempt left", () => {
  const outside = join(base, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "file"), "safe");
  symlinkSync(join(outside, "file"), join(dir, "file"));
  symlinkSync(outside, join(dir, "absolute"));
  symlinkSync("../outside", join(dir, "relative"));
  writePayload(dir, { path: "file", base64 }, undefined);
  expect(readFileSync(join(outside, "file"), "utf8")).toBe("safe");
  expect(readFileSync(join(dir, "file"), "utf8")).toBe("hello");
  for (const path of ["absolute/new", "relative/new"]) {
    expect(() => writePayload(dir, { path, base64 }, undefined)).toThrow("spec.dispatchPayload.file: ");
  }
  expect(existsSync(join(outside, "new"))).toBe(false);
});

it("does not replace a directory with the payload", () => {
  mkdirSync(join(dir, "in"));
  writeFileSync(join(dir, "in", "own"), "own");
  expect(() => writePayload(dir, { path: "in", base64 }, undefined)).toThrow("spec.dispatchPayload.file: in is a directory");
  expect(readFileSync(join(dir, "in", "own"), "utf8")).toBe("own");
});

it.runIf(process.getuid?.() === 0)("gives the payload and its directories to the task's user only", () => {
  writePayload(dir, { path: "in/data.json", base64 }, { uid: 1234, gid: 2345 });
  expect(statSync(join(dir, "in"))).toMatchObject({ uid: 1234, gid: 2345 });
  const file = statSync(join(dir, "in/data.json"));
  expect(file).toMatchObject({ uid: 1234, gid: 2345 });
  expect(file.mode & 0o777).toBe(0o600);
});
