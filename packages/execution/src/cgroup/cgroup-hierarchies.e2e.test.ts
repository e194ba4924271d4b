import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { discoverCgroups, parseHierarchies, removeEmptyParent } from "./cgroup-hierarchies.ts";

/*
 * The kernel's rule that a group with processes has no children with controllers. On a machine whose limits are in version 1, `hugetlb` stands
 * in for `memory`.
 */
const mounts = readFileSync("/proc/self/mounts", "utf8");
const mount = parseHierarchies({ mounts, membership: "" }).find(({ version }) => version === 2)?.mount ?? "";
const controllers = ["memory", "hugetlb"];
const name = `keelson-test-${process.pid}`;
const session = join(mount, name);
let shell: ChildProcess;

/** Removes a group with its children. */
function removeGroup(folder: string, ...children: readonly string[]): void {
  for (const path of [...children.map((child) => join(folder, child)), folder]) if (existsSync(path)) rmdirSync(path);
}

/** Controllers of the machine's root that its children had already. */
let before: readonly string[];

/** Takes the controllers away again from the children of a group, unless programs of another test use them. */
function restore(folder: string): void {
  try {
    for (const each of enabled(folder).filter((controller) => !before.includes(controller)))
      writeFileSync(join(folder, "cgroup.subtree_control"), `-${each}`);
  } catch {
    // In use, or removed.
  }
}

beforeEach(() => {
  before = enabled(mount);
  for (const each of available()) writeFileSync(join(mount, "cgroup.subtree_control"), `+${each}`);
  mkdirSync(session);
  shell = spawn("sleep", ["600"], { stdio: "ignore" });
  writeFileSync(join(session, "cgroup.procs"), String(shell.pid));
});

afterEach(async () => {
  shell.kill("SIGKILL");
  await once(shell, "exit");
  removeGroup(session, "keelson-init", "keelson");
  restore(join(mount, "keelson"));
  removeEmptyParent("/keelson");
  restore(mount);
});

const enabled = (folder: string): readonly string[] =>
  readFileSync(join(folder, "cgroup.subtree_control"), "utf8")
    .trim()
    .split(" ")
    .filter((each) => controllers.includes(each));
const available = (): readonly string[] =>
  readFileSync(join(mount, "cgroup.controllers"), "utf8")
    .trim()
    .split(" ")
    .filter((each) => controllers.includes(each));

test("programs of a session, whose shell is in its group, have limits in their own group", () => {
  expect(available()).not.toEqual([]);
  const [found] = discoverCgroups(undefined, {
    mounts: `cgroup2 ${mount} cgroup2 rw 0 0\n`,
    membership: `0::/${name}\n`,
    controllers,
  });
  expect(found?.parent).toBe(join(mount, "keelson"));
  expect(enabled(found?.parent ?? "")).toEqual(available());
  expect(readFileSync(join(session, "cgroup.procs"), "utf8")).toBe(`${shell.pid}\n`);
});

test("programs in a container have limits, although its processes were in the root of its groups", () => {
  // What a container sees as the root.
  const sources = { mounts: `cgroup2 ${session} cgroup2 rw 0 0\n`, membership: "0::/\n", controllers };
  const [found] = discoverCgroups(undefined, sources);
  expect(found?.parent).toBe(join(session, "keelson"));
  // A supervisor that starts again is in the group of the container's processes.
  const [again] = discoverCgroups(undefined, { ...sources, membership: "0::/keelson-init\n" });
  expect(again?.parent).toBe(found?.parent);
  expect(enabled(session)).toEqual(available());
  expect(readFileSync(join(session, "keelson-init/cgroup.procs"), "utf8")).toBe(`${shell.pid}\n`);
});
