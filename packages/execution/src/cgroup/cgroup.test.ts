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
 * On a plain directory with the files of a cgroup: values stay as they are written.
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

test("writes limits in version 2 syntax and disables swap", () => {
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

test("requests controllers that the own cgroup does not delegate, and reports a limit that needs one as not enforced", () => {
  const hierarchies = ownGroup("cpu\n");
  expect(get("own", "cgroup.subtree_control")).toBe("+pids");
  // As if the kernel refused because the cgroup has processes.
  const refused = hierarchies.map((each) => ({ ...each, controllers: new Set(["cpu"] as const) }));
  const group = createCgroup(refused, "p", { cpuMillis: 1, memoryBytes: 5 });
  expect(group.applied).toEqual({ cpuMillis: 1 });
  expect(group.message).toMatch(/memoryBytes: no writable cgroup with memory/);
  // The kernel rejects quotas under 1 ms.
  expect(get("own/p", "cpu.max")).toBe("1000 100000");
});

test("lists processes, kills them together, and reports an OOM kill", () => {
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

test("reports a cgroup that cannot be removed yet and ignores a missing one", () => {
  const hierarchies = ownGroup();
  put("own/p", { "cgroup.procs": "" });
  expect(removeCgroup(hierarchies, "p")).toBe(false);
  rmSync(join(mount, "own/p/cgroup.procs"));
  expect(removeCgroup(hierarchies, "p")).toBe(true);
  expect(removeCgroup(hierarchies, "p")).toBe(true);
});

test("tracks a program in version 1 on a hybrid machine, and forbids forks before a kill", () => {
  for (const controller of ["memory", "pids"])
    put(`${controller}/own/p`, { "cgroup.procs": "7\n", tasks: "", "pids.max": "9" });
  put("memory/own/p", { "memory.kmem.tcp.limit_in_bytes": "" });
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
  expect(get("memory/own/p", "memory.kmem.tcp.limit_in_bytes")).toBe("9");
  expect(entryFilesOf(hierarchies, "p")).toHaveLength(2);
  expect(createCgroup(hierarchies, "p", {}, "all").entryFiles).toHaveLength(3);
  sealCgroup(hierarchies, "p");
  expect(get("pids/own/p", "pids.max")).toBe("0");
});

test("creates a parent cgroup that delegates its controllers, and removes it when empty", () => {
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

test.each([["relative"], ["/"], ["/a/../b"], ["/.."], ["/a b"], ["/a//b"], [""]])("rejects %j as a parent cgroup", (parent) => {
  expect(() => discoverCgroups(parent, unified())).toThrow(/cgroupParent/);
});

test("removes empty cgroups of killed supervisors, but none of a starting program", () => {
  const parent = mount;
  const [left, used] = ["keelson-0123456789abcdef", "keelson-1123456789abcdef"];
  for (const name of [left, `${used}/child`, "keelson-shims", "other"]) mkdirSync(join(parent, name), { recursive: true });
  const hierarchy = { version: 2, mount, parent, controllers: new Set<never>() } as const;
  removeStaleCgroups([hierarchy], Date.now() - 60_000);
  expect(readdirSync(parent).sort()).toEqual([left, used, "keelson-shims", "other"].sort());
  removeStaleCgroups([hierarchy, { ...hierarchy, parent: join(parent, "none") }], Date.now() + 60_000);
  expect(readdirSync(parent).sort()).toEqual([used, "keelson-shims", "other"].sort());
});

test("finds the mounted hierarchies and the own cgroup in each", () => {
  const mounts =
    "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ntmpfs / tmpfs rw 0 0\n";
  expect(parseHierarchies({ mounts, membership: "3:cpu,cpuacct:/a\n0::/b/c\n" })).toEqual([
    { version: 1, mount: "/sys/fs/cgroup/cpu", controllers: ["cpu"], own: "/a" },
    { version: 2, mount: "/sys/fs/cgroup/unified", controllers: [], own: "/b/c" },
  ]);
});
