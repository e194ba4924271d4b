import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, onTestFinished, test } from "vitest";
import { Deadlines } from "../program/deadlines.ts";
import { programFolder } from "../program/files/program-folder.ts";
import { findLeftExecs, killLeftExecs } from "./exec-tree.ts";
import { listedProcesses, withoutExec } from "./process-tree.ts";

const folder = programFolder(tmpdir(), "a", `left-execs-${process.pid}`);

/** A process of a program; resolves once it has its environment. */
async function processOf(tag: string, exec: string): Promise<ChildProcess> {
  const child = spawn("cat", {
    env: { ...process.env, KEELSON_PROGRAM: tag, KEELSON_EXEC: exec },
    stdio: ["pipe", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdin.write("x");
  await once(child.stdout, "data");
  return child;
}

test("kills all commands left behind, although one does not end, and neither new ones nor other processes of the program", async () => {
  // The clock stands still, so no kill is ever seen to be complete.
  const request = { folder, deadlines: new Deadlines(createVirtualClock(0)) };
  const left = await Promise.all(["exec-000000000000000a", "exec-000000000000000b"].map((id) => processOf(folder.tag, id)));
  const own = await processOf(folder.tag, "own");
  const foreign = await processOf("other", "exec-000000000000000c");
  const found = await findLeftExecs([], request);
  const fresh = await processOf(folder.tag, "exec-000000000000000d");
  const ended = left.map((child) => once(child, "exit"));
  void killLeftExecs(found);
  expect(await Promise.all(ended)).toEqual(left.map(() => [null, "SIGKILL"]));
  for (const child of [own, foreign, fresh]) {
    child.stdin?.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  }
});

test("lists processes again if they could not be listed", async () => {
  const clock = createVirtualClock(0);
  let calls = 0;
  const list = () => (++calls < 3 ? Promise.reject(new Error("EMFILE")) : Promise.resolve([]));
  const listed = listedProcesses(list, new Deadlines(clock));
  await clock.advance(1000);
  expect(await listed).toEqual([]);
  expect(calls).toBe(3);
});

test("drops the variable of commands from the environment of programs", () => {
  expect(withoutExec({ A: "1", KEELSON_EXEC: "exec-000000000000000a" })).toEqual({ A: "1" });
});

test("removes the cgroup of a command once its last process has been reaped", async () => {
  const parent = mkdtempSync(join(tmpdir(), "exec-cgroups-"));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  const cgroup = join(parent, folder.tag, "exec-000000000000000a");
  mkdirSync(cgroup, { recursive: true });
  for (const each of [join(cgroup, ".."), cgroup]) writeFileSync(join(each, "cgroup.procs"), "");
  const clock = createVirtualClock(0);
  const hierarchies = [{ version: 2, mount: parent, parent, controllers: new Set<"pids">() }] as const;
  await killLeftExecs(await findLeftExecs(hierarchies, { folder, deadlines: new Deadlines(clock) }));
  // A plain directory with a file cannot be removed, like a cgroup with a process.
  await clock.advance(100);
  expect(existsSync(cgroup)).toBe(true);
  rmSync(join(cgroup, "cgroup.procs"));
  await clock.advance(1000);
  expect(existsSync(cgroup)).toBe(false);
});
