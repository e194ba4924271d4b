import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { allControllers } from "./cgroup-hierarchies.ts";
import type { CgroupHierarchy, Controller } from "./cgroup-hierarchies.ts";
import type { Limits } from "../driver.ts";
import { describeError, errorCode } from "../files/file-error.ts";

const cpuPeriodMicros = 100_000;

/** Files and values that set a limit in one cgroup version. */
export function limitSettings(
  version: 1 | 2,
  controller: Controller,
  limits: Limits,
): readonly (readonly [file: string, value: string])[] {
  const { cpuMillis, memoryBytes, pids } = limits;
  if (controller === "cpu" && cpuMillis !== undefined) {
    // The kernel refuses quotas under 1 ms.
    const quota = String(Math.max(Math.round((cpuMillis * cpuPeriodMicros) / 1000), 1000));
    return version === 2
      ? [["cpu.max", `${quota} ${cpuPeriodMicros}`]]
      : [
          ["cpu.cfs_period_us", String(cpuPeriodMicros)],
          ["cpu.cfs_quota_us", quota],
        ];
  }
  if (controller === "memory" && memoryBytes !== undefined) {
    return [[version === 2 ? "memory.max" : "memory.limit_in_bytes", String(memoryBytes)]];
  }
  if (controller === "pids" && pids !== undefined) return [["pids.max", String(pids)]];
  return [];
}

/** Writes files of a cgroup. */
export function writeSettings(folder: string, settings: readonly (readonly [file: string, value: string])[]): void {
  for (const [file, value] of settings) writeFileSync(join(folder, file), value);
}

/** Sets or changes a memory limit, without swap: a program at its limit is killed instead. Machines without swap accounting lack the file. */
export function setMemoryLimit(
  folder: string,
  version: 1 | 2,
  settings: readonly (readonly [file: string, value: string])[],
): void {
  const swap = join(folder, version === 2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes");
  const swapSettings = existsSync(swap)
    ? settings.map(([, bytes]) => [basename(swap), version === 2 ? "0" : bytes] as const)
    : [];
  try {
    writeSettings(folder, settings);
  } catch (error) {
    // In version 1 the limit with swap is never below the limit without: it is raised first, and lowered last.
    if (version === 2 || swapSettings.length === 0) throw error;
    writeSettings(folder, [...swapSettings, ...settings]);
  }
  writeSettings(folder, swapSettings);
}

/** The cgroups of one program. Their names derive from the program, so a later supervisor finds them without a record. */
export interface ProgramCgroup {
  readonly applied: Limits;
  /** Why a limit is not enforced, if any is not. */
  readonly message?: string;
  /** Files to which a single-threaded process writes `0` to enter all cgroups. */
  readonly entryFiles: readonly string[];
}

const limitOf: Readonly<Record<Controller, "cpuMillis" | "memoryBytes" | "pids">> = {
  cpu: "cpuMillis",
  memory: "memoryBytes",
  pids: "pids",
};

/**
 * The hierarchy whose cgroup tracks every process of a program, so that they can be listed and killed. On a machine with both versions
 * it is version 1: a process enters its cgroups immediately, and those of version 2 only after an RCU grace period.
 */
function trackingHierarchy(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy | undefined {
  return (
    hierarchies.find((hierarchy) => hierarchy.version === 1 && hierarchy.controllers.has("pids")) ??
    hierarchies.find((hierarchy) => hierarchy.version === 2) ??
    hierarchies[0]
  );
}

/**
 * The file by which a process enters a cgroup. Moving a whole process blocks every fork on the machine and takes about 10 ms; moving
 * the calling thread alone (`tasks`, Linux 5.5) does not. Version 2 does not let a thread leave its process's cgroup, so there the
 * whole process moves.
 */
function entryFile({ version, parent }: CgroupHierarchy, name: string): string {
  return join(parent, name, version === 1 ? "tasks" : "cgroup.procs");
}

/**
 * Creates a program's cgroups and sets its limits. `everywhere`: in every hierarchy, even without a limit, so that the program shares
 * no cgroup with its supervisor. Never throws: `message` names the limits that are not enforced.
 */
export function createCgroup(
  hierarchies: readonly CgroupHierarchy[],
  name: string,
  limits: Limits,
  everywhere = false,
): ProgramCgroup {
  const applied: { cpuMillis?: number; memoryBytes?: number; pids?: number } = {};
  const problems: string[] = [];
  const entryFiles: string[] = [];
  const tracker = trackingHierarchy(hierarchies);
  for (const hierarchy of hierarchies) {
    const wanted = allControllers.filter((c) => hierarchy.controllers.has(c) && limits[limitOf[c]] !== undefined);
    if (!everywhere && hierarchy !== tracker && wanted.length === 0) continue;
    const folder = join(hierarchy.parent, name);
    try {
      // A driver that closes removes an empty parent.
      mkdirSync(folder, { recursive: true });
    } catch (error) {
      problems.push(`${folder}: ${describeError(error)}`);
      continue;
    }
    entryFiles.push(entryFile(hierarchy, name));
    for (const controller of wanted) {
      const settings = limitSettings(hierarchy.version, controller, limits);
      try {
        if (controller === "memory") setMemoryLimit(folder, hierarchy.version, settings);
        else writeSettings(folder, settings);
        applied[limitOf[controller]] = limits[limitOf[controller]];
      } catch (error) {
        problems.push(`${limitOf[controller]}: ${describeError(error)}`);
      }
    }
  }
  const missing = allControllers.filter(
    (c) => limits[limitOf[c]] !== undefined && !hierarchies.some((h) => h.controllers.has(c)),
  );
  if (missing.length > 0) {
    problems.push(
      `${missing.map((c) => limitOf[c]).join(", ")}: no writable cgroup with ${missing.join(", ")} on this machine`,
    );
  }
  return { applied, entryFiles, ...(problems.length > 0 && { message: `not enforced: ${problems.join("; ")}` }) };
}

/** Pids in a program's cgroup; undefined if it has none (no hierarchy, or already removed). */
export function readCgroupPids(hierarchies: readonly CgroupHierarchy[], name: string): readonly number[] | undefined {
  const hierarchy = trackingHierarchy(hierarchies);
  if (hierarchy === undefined) return undefined;
  try {
    const text = readFileSync(join(hierarchy.parent, name, "cgroup.procs"), "latin1");
    return text.split("\n").filter(Boolean).map(Number);
  } catch {
    return undefined;
  }
}

/** Existing files to which a single-threaded process writes `0` to enter a program's cgroups. */
export function entryFilesOf(hierarchies: readonly CgroupHierarchy[], name: string): readonly string[] {
  return hierarchies.map((hierarchy) => entryFile(hierarchy, name)).filter((path) => existsSync(path));
}

/**
 * Prevents a fork bomb from outrunning a kill: version 2 kills every process of the cgroup at the same time (Linux 5.14); version 1
 * forbids further forks, and the caller kills the processes.
 */
export function sealCgroup(hierarchies: readonly CgroupHierarchy[], name: string): void {
  const hierarchy = trackingHierarchy(hierarchies);
  if (hierarchy === undefined) return;
  const [file, value] = hierarchy.version === 2 ? ["cgroup.kill", "1"] : ["pids.max", "0"];
  try {
    writeFileSync(join(hierarchy.parent, name, file), value, { flag: "r+" });
  } catch {
    // The cgroup was removed, or the kernel is older: the caller keeps killing what it lists.
  }
}

/** Whether the kernel's OOM killer killed a process of the program. */
export function wasOomKilled(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  return hierarchies.some((hierarchy) => {
    if (!hierarchy.controllers.has("memory")) return false;
    try {
      const file = hierarchy.version === 2 ? "memory.events" : "memory.oom_control";
      const count = /^oom_kill (\d+)$/m.exec(readFileSync(join(hierarchy.parent, name, file), "latin1"))?.[1];
      return Number(count ?? 0) > 0;
    } catch {
      return false;
    }
  });
}

/** Removes a program's cgroups; false while the kernel still reaps the last process of one. */
export function removeCgroup(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  let isRemoved = true;
  for (const { parent } of hierarchies) {
    try {
      rmdirSync(join(parent, name));
    } catch (error) {
      if (errorCode(error) !== "ENOENT") isRemoved = false;
    }
  }
  return isRemoved;
}

/** The names of programs' cgroups. */
export const tagPattern = /^keelson-[0-9a-f]{16}$/;

/**
 * Removes empty program cgroups older than `before` (milliseconds since the epoch), which killed supervisors left behind. A younger one
 * may belong to another supervisor's starting program; one with an OOM kill may still be queried for it.
 */
export function removeStaleCgroups(hierarchies: readonly CgroupHierarchy[], before: number): void {
  for (const { parent } of hierarchies) {
    for (const name of namesIn(parent)) {
      const folder = join(parent, name);
      try {
        if (!tagPattern.test(name) || statSync(folder).ctimeMs >= before || wasOomKilled(hierarchies, name)) continue;
        rmdirSync(folder);
      } catch {
        // In use, or already removed.
      }
    }
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
