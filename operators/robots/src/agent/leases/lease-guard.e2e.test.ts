import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LeaseGuard } from "./lease-guard.ts";
import { readBootMs } from "../read-device-info.ts";

let dir: string;
const processes: ChildProcess[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keelson-guard-"));
});

afterEach(() => {
  for (const { pid } of processes.splice(0)) {
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
  rmSync(dir, { recursive: true, force: true });
});

function start(command: string, args: readonly string[]): ChildProcess {
  const started = spawn(command, args, { detached: true, stdio: "ignore" });
  processes.push(started);
  return started;
}

/** Processes of a group that are not zombies. */
function runningIn(group: number): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const [state = "", , processGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return Number(processGroup) === group && !["Z", "X"].includes(state);
    } catch {
      return false;
    }
  });
}

test("a program is killed with its children when its lease ends, and another program is not", async () => {
  const guard = new LeaseGuard(dir);
  const program = start("/bin/sh", ["-c", "sleep 600 & wait"]);
  const other = start("sleep", ["600"]);
  await guard.record({ id: "other", pid: other.pid ?? 0, untilMs: readBootMs() + 3_600_000 });
  await guard.record({ id: "program", pid: program.pid ?? 0, untilMs: readBootMs() });
  const [, signal] = await once(program, "exit");
  expect(signal).toBe("SIGKILL");
  await expect.poll(() => runningIn(program.pid ?? 0)).toEqual([]);
  expect(other.exitCode).toBeNull();
  await guard.forget("other");
  await expect.poll(() => existsSync(join(dir, "program.lease"))).toBe(false);
});

test("a process that only has the number of the program is not killed", async () => {
  const started: string[] = [];
  const guard = new LeaseGuard(dir, (folder) => started.push(folder));
  await guard.record({ id: "gone", pid: 2 ** 22 + 1, untilMs: readBootMs() });
  expect(started).toEqual([]);
  expect(existsSync(join(dir, "gone.lease"))).toBe(false);
});

test("a lease is recorded although a directory has taken the place of its record", async () => {
  const guard = new LeaseGuard(dir, () => {});
  mkdirSync(join(dir, "own.lease", "in"), { recursive: true });
  await guard.record({ id: "own", pid: process.pid, untilMs: 5_000 });
  expect(await guard.endOf("own")).toBe(5_000);
  await guard.forget("own");
  expect(await guard.endOf("own")).toBeUndefined();
});
