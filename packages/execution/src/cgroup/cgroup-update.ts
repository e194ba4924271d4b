import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ExecutionError, type RunningLimits } from "../driver.ts";
import { describeError, errorCode } from "../files/file-error.ts";
import { readCgroupPids } from "./cgroup.ts";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";
import { cgroupLimitsOf, controllerOf, setCgroupLimit } from "./cgroup-limits.ts";

/** Maximum number of passes over the processes of a program that keeps forking. */
const maxMoves = 64;

/**
 * Changes limits of a running program. A memory limit that is not above the current usage is refused before anything is written: the
 * kernel would kill the program, or reject the limit. Throws `Unsupported`.
 */
export function updateCgroup(hierarchies: readonly CgroupHierarchy[], name: string, limits: RunningLimits): void {
  const changes = cgroupLimitsOf(limits).flatMap(({ limit, value }) => {
    const controller = controllerOf[limit];
    const hierarchy = hierarchies.find(({ controllers }) => controllers.has(controller));
    if (hierarchy !== undefined) return [{ limit, value, hierarchy }];
    if (limit === "cpuShares") return [];
    throw unsupported(`${limit}: no writable cgroup with ${controller} on this machine`);
  });
  for (const hierarchy of new Set(changes.map((change) => change.hierarchy))) gather(hierarchies, hierarchy, name);
  for (const { limit, value, hierarchy } of changes) if (limit === "memoryBytes") checkUsage(hierarchy, name, value);
  for (const { limit, value, hierarchy } of changes) {
    try {
      setCgroupLimit(join(hierarchy.parent, name), hierarchy.version, limit, value);
    } catch (error) {
      throw unsupported(`${limit}: ${describeError(error)}`);
    }
  }
}

function unsupported(problem: string): ExecutionError {
  return new ExecutionError("Unsupported", `cannot change the limits of the program: ${problem}`);
}

/** Moves the processes of a program into its cgroup of a hierarchy, which exists only if the program was started with a limit there. */
function gather(hierarchies: readonly CgroupHierarchy[], hierarchy: CgroupHierarchy, name: string): void {
  const folder = join(hierarchy.parent, name);
  for (let moves = 0; moves < maxMoves; moves++) {
    const all = readCgroupPids(hierarchies, name);
    if (all === undefined || all.length === 0) throw unsupported("it has no cgroup");
    const inside = new Set(readCgroupPids([hierarchy], name));
    const missing = all.filter((pid) => !inside.has(pid));
    if (missing.length === 0) return;
    try {
      mkdirSync(folder, { recursive: true });
      for (const pid of missing) move(folder, pid);
    } catch (error) {
      throw unsupported(describeError(error));
    }
  }
  throw unsupported("it starts processes faster than they can be moved into its cgroup");
}

function move(folder: string, pid: number): void {
  try {
    writeFileSync(join(folder, "cgroup.procs"), String(pid), { flag: "r+" });
  } catch (error) {
    // It has terminated.
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

function checkUsage({ version, parent }: CgroupHierarchy, name: string, limitBytes: number): void {
  const read = (file: string): number => Number(readFileSync(join(parent, name, file), "latin1").trim());
  let usage: number;
  let before: number;
  try {
    usage = read(version === 2 ? "memory.current" : "memory.usage_in_bytes");
    // Version 2 says `max`, which is not a number.
    before = read(version === 2 ? "memory.max" : "memory.limit_in_bytes") || Number.POSITIVE_INFINITY;
  } catch (error) {
    throw unsupported(describeError(error));
  }
  if (limitBytes < before && usage >= limitBytes) {
    throw new ExecutionError("InUse", `attempting to set memory limit (${limitBytes}) below current usage (${usage})`);
  }
}
