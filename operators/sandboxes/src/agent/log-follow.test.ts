import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Program } from "@keelson/execution";
import { afterEach, beforeEach, expect, it } from "vitest";
import { readLog } from "./log-follow.ts";

let folder: string;
let listeners: Set<() => void>;

const programWith = (path: string): Pick<Program, "logs" | "state" | "onExit"> => ({
  logs: { stdout: path, stderr: path },
  state: { kind: "running", pid: 1, startedAt: 0 },
  onExit: (listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  },
});

/** Descriptors of this process that watch files. */
const watches = (): number =>
  readdirSync("/proc/self/fdinfo").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === "anon_inode:inotify";
    } catch {
      return false;
    }
  }).length;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "log-follow-"));
  listeners = new Set();
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

it("follows a log until its program has ended, and leaves nothing at the program", async () => {
  const path = join(folder, "stdout.log");
  writeFileSync(path, "one");
  const log = readLog(programWith(path), { follow: true, signal: new AbortController().signal });
  expect((await log.next()).value?.toString()).toBe("one");
  const next = log.next();
  writeFileSync(path, "onetwo");
  expect((await next).value?.toString()).toBe("two");
  const end = log.next();
  for (const listener of listeners) listener();
  expect((await end).done).toBe(true);
  expect(listeners.size).toBe(0);
});

it("leaves neither a watch nor a listener if the log cannot be opened", async () => {
  const before = watches();
  const log = readLog(programWith(join(folder, "missing.log")), { follow: true, signal: new AbortController().signal });
  await expect(log.next()).rejects.toThrow("ENOENT");
  expect(listeners.size).toBe(0);
  expect(watches()).toBe(before);
});
