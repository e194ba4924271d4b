import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLogs, linkLogs } from "./task-logs.ts";

let base: string;
let dir: string;
const output = { stdout: "/programs/1/stdout", stderr: "/programs/1/stderr" };

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "keelson-logs-"));
  dir = join(base, "task");
  mkdirSync(dir);
});

afterEach(() => {
  rmSync(base, { recursive: true, force: true });
});

const links = (): readonly string[] => ["stdout.log", "stderr.log"].map((name) => readlinkSync(join(dir, "logs", name)));

test("links the output of the last program, and keeps other files of the directory", () => {
  createLogs(dir);
  linkLogs(dir, { stdout: "/programs/0/stdout", stderr: "/programs/0/stderr" });
  writeFileSync(join(dir, "logs", "own.log"), "own");
  createLogs(dir);
  linkLogs(dir, output);
  expect(links()).toEqual([output.stdout, output.stderr]);
  expect(readdirSync(join(dir, "logs")).sort()).toEqual(["own.log", "stderr.log", "stdout.log"]);
  expect(lstatSync(join(dir, "logs")).isDirectory()).toBe(true);
});

test.each([
  ["a directory", "outside"],
  ["nothing", "missing"],
])("replaces a link to %s that a program left instead of the directory", (_, target) => {
  const outside = join(base, "outside");
  mkdirSync(outside);
  for (const name of ["stdout.log", "stderr.log"]) writeFileSync(join(outside, name), "safe");
  symlinkSync(join(base, target), join(dir, "logs"));
  createLogs(dir);
  linkLogs(dir, output);
  expect(readFileSync(join(outside, "stdout.log"), "utf8")).toBe("safe");
  expect(readFileSync(join(outside, "stderr.log"), "utf8")).toBe("safe");
  expect(readdirSync(outside)).toHaveLength(2);
  expect(existsSync(join(base, "missing"))).toBe(false);
  expect(links()).toEqual([output.stdout, output.stderr]);
});

test("does not follow a link that a program creates after the directory was made", () => {
  createLogs(dir);
  rmSync(join(dir, "logs"), { recursive: true });
  mkdirSync(join(dir, "own"));
  writeFileSync(join(dir, "own", "stdout.log"), "own");
  symlinkSync("own", join(dir, "logs"));
  linkLogs(dir, output);
  expect(readFileSync(join(dir, "own", "stdout.log"), "utf8")).toBe("own");
  expect(links()).toEqual([output.stdout, output.stderr]);
});

test("replaces a file instead of the directory, and links instead of the output", () => {
  writeFileSync(join(dir, "logs"), "");
  createLogs(dir);
  const file = join(base, "file");
  writeFileSync(file, "safe");
  symlinkSync(file, join(dir, "logs", "stdout.log"));
  linkLogs(dir, output);
  expect(readFileSync(file, "utf8")).toBe("safe");
  expect(links()).toEqual([output.stdout, output.stderr]);
});

test("keeps a directory that a program created instead of a link, and leaves no draft", () => {
  mkdirSync(join(dir, "logs", "stdout.log"), { recursive: true });
  expect(() => linkLogs(dir, output)).toThrow("EISDIR");
  expect(readdirSync(join(dir, "logs"))).toEqual(["stdout.log"]);
});
