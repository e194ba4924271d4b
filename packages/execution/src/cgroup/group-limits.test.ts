import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import type { CgroupHierarchy, Controller } from "./cgroup-hierarchies.ts";
import { limitGroup, limitProgramPids } from "./group-limits.ts";

/* On plain directories, as in `cgroup.test.ts`. */
let base: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "keelson-limits-"));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
});

const machine = { memoryBytes: 1_000_000, pids: 32_768 };

function hierarchy(mount: string, version: 1 | 2, controllers: readonly Controller[]): CgroupHierarchy {
  return { version, mount: join(base, mount), parent: join(base, mount, "own/pods"), controllers: new Set(controllers) };
}

function put(path: string, text: string): void {
  mkdirSync(join(base, path, ".."), { recursive: true });
  writeFileSync(join(base, path), text);
}
const read = (path: string): string => readFileSync(join(base, path), "utf8");

test("a group leaves memory and processes to the machine, and a program leaves processes to the group", () => {
  const unified = [hierarchy("unified", 2, ["pids", "memory"])];
  for (const file of ["pids.max", "memory.max", "p/pids.max"]) put(`unified/own/pods/${file}`, "max\n");
  limitGroup(unified, machine);
  expect([read("unified/own/pods/pids.max"), read("unified/own/pods/memory.max")]).toEqual(["16384", "950000"]);
  limitProgramPids(unified, "p");
  expect(read("unified/own/pods/p/pids.max")).toBe("4096");
});

test("a group leaves memory and processes to its supervisor, within the limits around both", () => {
  const split = [hierarchy("pids", 1, ["pids"]), hierarchy("memory", 1, ["memory"]), hierarchy("cpu", 1, ["cpu"])];
  put("pids/own/pods/pids.max", "max\n");
  put("pids/own/pids.max", "1000\n");
  put("pids/pids.max", "max\n");
  put("memory/own/pods/memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/own/memory.limit_in_bytes", "9223372036854771712\n");
  put("memory/memory.limit_in_bytes", "100000\n");
  limitGroup(split, machine);
  expect([read("pids/own/pods/pids.max"), read("memory/own/pods/memory.limit_in_bytes")]).toEqual(["500", "95000"]);
});

test("a cgroup without a limit file stays without", () => {
  const unified = [hierarchy("unified", 2, ["pids", "memory"])];
  limitGroup(unified, machine);
  limitProgramPids(unified, "p");
  put("unified/own/pods/p/pids.max", "max\n");
  limitProgramPids(unified, "p");
  expect(read("unified/own/pods/p/pids.max")).toBe("max\n");
});
