import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { CgroupHierarchy, Controller } from "./cgroup-hierarchies.ts";
import { cpuWeightOf } from "./cgroup-limits.ts";
import { updateCgroup } from "./cgroup-update.ts";
import { createCgroup } from "./cgroup.ts";
import { cgroupView } from "./cgroup-view.ts";
import { enterProgramGroup, neighborGroups, removeEmptyGroup, restoreProgramGroup } from "./program-group.ts";

/* On plain directories, as in `cgroup.test.ts`. */
let base: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "keelson-group-"));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
});

const read = (...path: string[]): string => readFileSync(join(base, ...path), "utf8");

function hierarchy(mount: string, version: 1 | 2, controllers: readonly Controller[]): CgroupHierarchy {
  const parent = join(base, mount, "own");
  mkdirSync(parent, { recursive: true });
  return { version, mount: join(base, mount), parent, controllers: new Set(controllers) };
}

/** A machine with version 1 for our controllers and version 2 for others. */
const hybrid = (): readonly CgroupHierarchy[] => [
  hierarchy("cpu,cpuacct", 1, ["cpu"]),
  hierarchy("memory", 1, ["memory"]),
  hierarchy("unified", 2, []),
];

const group = { name: "pods", cpuShares: 2048 };

test("gives programs a group whose share they divide, and a cgroup wherever a limit could be set later", () => {
  const [cpu, memory] = enterProgramGroup(hybrid(), group);
  expect(cpu?.parent).toBe(join(base, "cpu,cpuacct/own/pods"));
  expect(read("cpu,cpuacct/own/pods/cpu.shares")).toBe("2048");
  const used = [cpu, memory].flatMap((each) => each ?? []);
  const { applied, entryFiles, message } = createCgroup(used, "p", { cpuShares: 512, cpuMillis: 20 }, "controlled");
  expect([applied, message]).toEqual([{ cpuShares: 512, cpuMillis: 20 }, undefined]);
  expect(entryFiles).toEqual(["cpu,cpuacct", "memory"].map((mount) => join(base, mount, "own/pods/p/tasks")));
  expect([read("cpu,cpuacct/own/pods/p/cpu.shares"), read("cpu,cpuacct/own/pods/p/cpu.cfs_quota_us")]).toEqual(["512", "2000"]);
});

test("removes a group when it is empty", () => {
  // A plain directory with files cannot be removed as a cgroup can.
  const grouped = enterProgramGroup([hierarchy("memory", 1, ["memory"])], group);
  mkdirSync(join(base, "memory/own/pods/p"));
  removeEmptyGroup(grouped);
  expect(existsSync(join(base, "memory/own/pods"))).toBe(true);
  rmSync(join(base, "memory/own/pods/p"), { recursive: true });
  removeEmptyGroup(grouped);
  expect(existsSync(join(base, "memory/own/pods"))).toBe(false);
});

test("finds the groups of other data directories, but not itself or other cgroups", () => {
  const own = { name: "pods-1", cpuShares: 2 };
  const around = [hierarchy("memory", 1, ["memory"]), hierarchy("pids", 1, ["pids"])];
  enterProgramGroup(around, own);
  mkdirSync(join(base, "memory/own/pods-2"));
  mkdirSync(join(base, "memory/own/other-2"));
  const parents = neighborGroups(around, own).map((hierarchies) => hierarchies.map(({ parent }) => parent));
  expect(parents).toEqual([["memory", "pids"].map((mount) => join(base, mount, "own/pods-2"))]);
  expect(neighborGroups(around, group)).toEqual([]);
});

test("removes the empty group of another data directory, which its driver creates again with its share", () => {
  const grouped = enterProgramGroup(hybrid(), group);
  const parents = grouped.map(({ parent }) => parent);
  for (const { parent } of grouped) rmSync(parent, { recursive: true });
  for (const parent of parents) mkdirSync(parent);
  removeEmptyGroup(grouped, Date.now() - 60_000);
  expect(parents.filter((parent) => existsSync(parent))).toEqual(parents);
  removeEmptyGroup(grouped, Date.now() + 60_000);
  expect(parents.filter((parent) => existsSync(parent))).toEqual([]);
  restoreProgramGroup(grouped, group);
  expect(parents.filter((parent) => existsSync(parent))).toEqual(parents);
  expect(read("cpu,cpuacct/own/pods/cpu.shares")).toBe(String(group.cpuShares));
});

test.each(["", ".", "..", "a/b", "../a"])("rejects %j as the name of a group", (name) => {
  expect(() => enterProgramGroup(hybrid(), { ...group, name })).toThrow(/group\.name/);
});

test("changes the share of a running program, and ignores shares where no cgroup has them", () => {
  const [cpu, memory] = enterProgramGroup(hybrid(), group);
  const used = [cpu, memory].flatMap((each) => each ?? []);
  createCgroup(used, "p", { cpuShares: 512 }, "controlled");
  for (const { parent } of used) writeFileSync(join(parent, "p/cgroup.procs"), "1\n");
  updateCgroup(used, "p", { cpuShares: 20 });
  expect(read("cpu,cpuacct/own/pods/p/cpu.shares")).toBe("20");
  const without = used.filter(({ controllers }) => !controllers.has("cpu"));
  updateCgroup(without, "p", { cpuShares: 20 });
  expect(createCgroup(without, "q", { cpuShares: 20 })).toMatchObject({ applied: {} });
  expect(createCgroup(without, "q", { cpuShares: 20 }).message).toBeUndefined();
  expect(() => updateCgroup(without, "p", { cpuMillis: 20 })).toThrow(/cpuMillis: no writable cgroup with cpu/);
});

test("shows a program its own cgroups only, with version 1 one per controller", () => {
  const hierarchies = enterProgramGroup(hybrid(), group);
  expect(cgroupView(hierarchies, "p")).toEqual([]);
  createCgroup(hierarchies, "p", {}, "controlled");
  createCgroup(hierarchies, "sibling", {}, "all");
  const source = join(base, "cpu,cpuacct/own/pods/p");
  expect(cgroupView(hierarchies, "p")).toEqual([
    { source, target: "/sys/fs/cgroup/cpu,cpuacct" },
    { source, target: "/sys/fs/cgroup/cpu" },
    { source: join(base, "memory/own/pods/p"), target: "/sys/fs/cgroup/memory" },
  ]);
});

test("shows the one cgroup of version 2", () => {
  const unified = [hierarchy("cgroup", 2, ["cpu", "memory", "pids"])];
  createCgroup(unified, "p", { cpuShares: 1024 });
  expect(cgroupView(unified, "p")).toEqual([{ source: join(base, "cgroup/own/p"), target: "/sys/fs/cgroup" }]);
  expect(read("cgroup/own/p/cpu.weight")).toBe("100");
});

test.each([
  [2, 1],
  [20, 6],
  [102, 17],
  [1024, 100],
  [262_144, 10_000],
])("converts %i shares to the weight %i as OCI runtimes do", (shares, weight) => {
  expect(cpuWeightOf(shares)).toBe(weight);
});
