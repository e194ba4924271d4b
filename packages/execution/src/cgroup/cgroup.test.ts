import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { discoverCgroups, parseHierarchies, removeEmptyParent } from "./cgroup-hierarchies.ts";
import {
  createCgroup,
  entryFilesOf,
  readCgroupPids,
  removeCgroup,
  removeStaleCgroups,
  sealCgroup,
  wasOomKilled,
} from "./cgroup.ts";

/*
 * On a folder with the files that the kernel has in a group. It is no file system of groups: what is written stays as it is written.
 */
let mount: string;

beforeEach(() => {
  mount = mkdtempSync(join(tmpdir(), "keelson-cgroup-"));
});
afterEach(() => rmSync(mount, { recursive: true, force: true }));

const put = (group: string, files: Readonly<Record<string, string>>): void => {
  mkdirSync(join(mount, group), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(mount, group, name), text);
};
const get = (group: string, file: string): string => readFileSync(join(mount, group, file), "utf8");

const controllers = "cpuset cpu io memory pids\n";

/** A machine with version 2 only, and this process in the group `/own`. */
const unified = () => ({ mounts: `cgroup2 ${mount} cgroup2 rw 0 0\n`, membership: "0::/own\n" });

function ownGroup(subtree = "cpu memory pids\n") {
  put("own", { "cgroup.procs": "", "cgroup.controllers": controllers, "cgroup.subtree_control": subtree });
  return discoverCgroups(undefined, unified());
}

test("limits are written in the words of version 2, and swap is none", () => {
  const hierarchies = ownGroup();
  put("own/p", { "memory.swap.max": "max\n" });
  const group = createCgroup(hierarchies, "p", { cpuMillis: 250, memoryBytes: 1 << 20, pids: 7 });
  expect(group).toEqual({
    applied: { cpuMillis: 250, memoryBytes: 1 << 20, pids: 7 },
    entryFiles: [join(mount, "own/p/cgroup.procs")],
  });
  expect([get("own/p", "cpu.max"), get("own/p", "memory.max")]).toEqual(["25000 100000", String(1 << 20)]);
  expect([get("own/p", "pids.max"), get("own/p", "memory.swap.max")]).toEqual(["7", "0"]);
});

test("controllers that the own group does not pass on are asked for, and a limit that needs one is said not to hold", () => {
  const hierarchies = ownGroup("cpu\n");
  expect(get("own", "cgroup.subtree_control")).toBe("+pids");
  // As where the kernel refuses because processes live in the group.
  const refused = hierarchies.map((each) => ({ ...each, controllers: new Set(["cpu"] as const) }));
  const group = createCgroup(refused, "p", { cpuMillis: 1, memoryBytes: 5 });
  expect(group.applied).toEqual({ cpuMillis: 1 });
  expect(group.message).toMatch(/memoryBytes: no writable cgroup with memory/);
  // The kernel takes no quota under 1 ms.
  expect(get("own/p", "cpu.max")).toBe("1000 100000");
});

test("processes are listed, killed at once, and asked whether memory ended them", () => {
  const hierarchies = ownGroup();
  put("own/p", { "cgroup.procs": "12\n345\n", "cgroup.kill": "", "memory.events": "low 0\noom 1\noom_kill 0\n" });
  expect(readCgroupPids(hierarchies, "p")).toEqual([12, 345]);
  expect(readCgroupPids(hierarchies, "gone")).toBeUndefined();
  expect(wasOomKilled(hierarchies, "p")).toBe(false);
  put("own/p", { "memory.events": "low 0\noom 1\noom_kill 2\n" });
  expect(wasOomKilled(hierarchies, "p")).toBe(true);
  sealCgroup(hierarchies, "p");
  expect(get("own/p", "cgroup.kill")).toBe("1");
  sealCgroup(hierarchies, "gone");
  expect(existsSync(join(mount, "own/gone"))).toBe(false);
});

test("a group that cannot go yet is told, one that is gone is no error", () => {
  const hierarchies = ownGroup();
  put("own/p", { "cgroup.procs": "" });
  expect(removeCgroup(hierarchies, "p")).toBe(false);
  rmSync(join(mount, "own/p/cgroup.procs"));
  expect(removeCgroup(hierarchies, "p")).toBe(true);
  expect(removeCgroup(hierarchies, "p")).toBe(true);
});

test("on a machine with both versions a program is tracked where it enters at once, and can fork no more when it is killed", () => {
  for (const controller of ["memory", "pids"])
    put(`${controller}/own/p`, { "cgroup.procs": "7\n", tasks: "", "pids.max": "9" });
  for (const controller of ["memory", "pids"]) put(`${controller}/own`, { "cgroup.procs": "" });
  put("unified/own", { "cgroup.procs": "", "cgroup.controllers": "", "cgroup.subtree_control": "" });
  const mounts = [
    `cgroup2 ${mount}/unified cgroup2 rw 0 0`,
    ...["memory", "pids"].map((controller) => `cgroup ${mount}/${controller} cgroup rw,${controller} 0 0`),
  ].join("\n");
  const hierarchies = discoverCgroups(undefined, { mounts, membership: "2:memory:/own\n1:pids:/own\n0::/own\n" });
  expect(createCgroup(hierarchies, "p", {}).entryFiles).toEqual([join(mount, "pids/own/p/tasks")]);
  expect(createCgroup(hierarchies, "p", { memoryBytes: 9 }).entryFiles).toEqual(
    ["memory", "pids"].map((controller) => join(mount, controller, "own/p/tasks")),
  );
  expect(get("memory/own/p", "memory.limit_in_bytes")).toBe("9");
  expect(entryFilesOf(hierarchies, "p")).toHaveLength(2);
  expect(createCgroup(hierarchies, "p", {}, true).entryFiles).toHaveLength(3);
  sealCgroup(hierarchies, "p");
  expect(get("pids/own/p", "pids.max")).toBe("0");
});

test("a parent group is made with its controllers passed down, and goes when it is empty", () => {
  const files = { "cgroup.procs": "", "cgroup.controllers": controllers, "cgroup.subtree_control": "cpu memory pids\n" };
  put("", files);
  put("keelson", files);
  put("keelson/boxes", files);
  expect(discoverCgroups("/keelson/boxes", unified())).toMatchObject([{ version: 2, parent: join(mount, "keelson/boxes") }]);
  mkdirSync(join(mount, "empty/keelson-shims"), { recursive: true });
  removeEmptyParent("/empty", unified());
  removeEmptyParent("/keelson/boxes", unified());
  expect([existsSync(join(mount, "empty")), existsSync(join(mount, "keelson/boxes"))]).toEqual([false, true]);
});

test.each([["relative"], ["/"], ["/a/../b"], ["/.."], ["/a b"], ["/a//b"], [""]])("%j is no parent of cgroups", (parent) => {
  expect(() => discoverCgroups(parent, unified())).toThrow(/cgroupParent/);
});

test("groups that killed supervisors left are removed, if nothing is in them and they are no program's that is just starting", () => {
  const parent = mount;
  const [left, used] = ["keelson-0123456789abcdef", "keelson-1123456789abcdef"];
  for (const name of [left, `${used}/child`, "keelson-shims", "other"]) mkdirSync(join(parent, name), { recursive: true });
  const hierarchy = { version: 2, parent, controllers: new Set<never>() } as const;
  removeStaleCgroups([hierarchy], Date.now() - 60_000);
  expect(readdirSync(parent).sort()).toEqual([left, used, "keelson-shims", "other"].sort());
  removeStaleCgroups([hierarchy, { ...hierarchy, parent: join(parent, "none") }], Date.now() + 60_000);
  expect(readdirSync(parent).sort()).toEqual([used, "keelson-shims", "other"].sort());
});

test("hierarchies of control groups are found with the own group in each", () => {
  const mounts =
    "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ntmpfs / tmpfs rw 0 0\n";
  expect(parseHierarchies({ mounts, membership: "3:cpu,cpuacct:/a\n0::/b/c\n" })).toEqual([
    { version: 1, mount: "/sys/fs/cgroup/cpu", controllers: ["cpu"], own: "/a" },
    { version: 2, mount: "/sys/fs/cgroup/unified", controllers: [], own: "/b/c" },
  ]);
});
