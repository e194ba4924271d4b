import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";
import { type CgroupLimit, cgroupLimitsOf, controllerOf, setCgroupLimit } from "./cgroup-limits.ts";
import type { Limits } from "../driver.ts";
import { execFoldersIn } from "./exec-cgroup.ts";
import { entryFile, trackingHierarchy } from "./tracking-hierarchy.ts";
import { describeError, errorCode } from "../files/file-error.ts";

/** The cgroups of one program. Their names derive from the program, so a later supervisor finds them without a record. */
export interface ProgramCgroup {
  readonly applied: Limits;
  /** Why a limit is not enforced, if any is not. */
  readonly message?: string;
  /** Files to which a single-threaded process writes `0` to enter all cgroups. */
  readonly entryFiles: readonly string[];
}

/**
 * In which hierarchies a program gets a cgroup. `limited`: where its processes are tracked or it has a limit. `controlled`: also wherever
 * a limit could be set later. `all`: everywhere, so that the program shares no cgroup with its supervisor.
 */
export type CgroupScope = "limited" | "controlled" | "all";

/** Creates a program's cgroups and sets its limits. Never throws: `message` names the limits that are not enforced. */
export function createCgroup(
  hierarchies: readonly CgroupHierarchy[],
  name: string,
  limits: Limits,
  scope: CgroupScope = "limited",
): ProgramCgroup {
  const applied: { -readonly [limit in CgroupLimit]?: number } = {};
  const problems: string[] = [];
  const entryFiles: string[] = [];
  const tracker = trackingHierarchy(hierarchies);
  const wanted = cgroupLimitsOf(limits);
  for (const hierarchy of hierarchies) {
    const own = wanted.filter(({ limit }) => hierarchy.controllers.has(controllerOf[limit]));
    const isNeeded = scope === "all" || own.length > 0 || (scope === "controlled" && hierarchy.controllers.size > 0);
    if (hierarchy !== tracker && !isNeeded) continue;
    const folder = join(hierarchy.parent, name);
    try {
      // A driver that closes removes an empty parent.
      mkdirSync(folder, { recursive: true });
    } catch (error) {
      problems.push(`${folder}: ${describeError(error)}`);
      continue;
    }
    entryFiles.push(entryFile(hierarchy, name));
    for (const { limit, value } of own) {
      try {
        setCgroupLimit(folder, hierarchy.version, limit, value);
        applied[limit] = value;
      } catch (error) {
        problems.push(`${limit}: ${describeError(error)}`);
      }
    }
  }
  // Shares are not a limit: without them the program has the kernel's default.
  const missing = wanted
    .map(({ limit }) => limit)
    .filter((limit) => limit !== "cpuShares" && !hierarchies.some(({ controllers }) => controllers.has(controllerOf[limit])));
  if (missing.length > 0) {
    const controllers = missing.map((limit) => controllerOf[limit]).join(", ");
    problems.push(`${missing.join(", ")}: no writable cgroup with ${controllers} on this machine`);
  }
  return { applied, entryFiles, ...(problems.length > 0 && { message: `not enforced: ${problems.join("; ")}` }) };
}

/** Pids in a program's cgroup and those of its contained commands; undefined if it has none (no hierarchy, or already removed). */
export function readCgroupPids(hierarchies: readonly CgroupHierarchy[], name: string): readonly number[] | undefined {
  const hierarchy = trackingHierarchy(hierarchies);
  if (hierarchy === undefined) return undefined;
  const folder = join(hierarchy.parent, name);
  try {
    return [pidsIn(folder), ...execFoldersIn(folder).map((id) => existingPidsIn(join(folder, id)))].flat();
  } catch {
    return undefined;
  }
}

function pidsIn(folder: string): readonly number[] {
  return readFileSync(join(folder, "cgroup.procs"), "latin1").split("\n").filter(Boolean).map(Number);
}

/** None if the cgroup was just removed. */
function existingPidsIn(folder: string): readonly number[] {
  try {
    return pidsIn(folder);
  } catch {
    return [];
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
      removeWithExecs(join(parent, name));
    } catch (error) {
      if (errorCode(error) !== "ENOENT") isRemoved = false;
    }
  }
  return isRemoved;
}

function removeWithExecs(folder: string): void {
  for (const id of execFoldersIn(folder)) rmdirSync(join(folder, id));
  rmdirSync(folder);
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
        removeWithExecs(folder);
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
