import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { ExecutionError } from "../driver.ts";
import { type CgroupHierarchy, delegate } from "./cgroup-hierarchies.ts";
import { limitGroup } from "./group-limits.ts";
import { setCgroupLimit } from "./cgroup-limits.ts";

/**
 * Its own cgroup, below the parent of a driver's cgroups, that holds the cgroups of the driver's programs. It has one share of the
 * machine's CPU, which they divide by their `cpuShares`, and leaves memory and processes to the rest of the machine (see `limitGroup`). Drivers with the same parent may use the same group.
 */
export interface ProgramGroup {
  /** Name of the cgroup, one part of a path. */
  readonly name: string;
  /** Share of the group alongside the cgroups around it, see `Limits.cpuShares`. */
  readonly cpuShares: number;
}

/** Creates a group where possible, and returns the hierarchies with it as the parent. Throws `Unsupported` for an invalid name. */
export function enterProgramGroup(hierarchies: readonly CgroupHierarchy[], group: ProgramGroup): readonly CgroupHierarchy[] {
  if (!/^\w[\w.@:-]*$/.test(group.name)) {
    throw new ExecutionError("Unsupported", `group.name: ${JSON.stringify(group.name)} must be the name of a directory`);
  }
  const grouped = hierarchies.flatMap((hierarchy): readonly CgroupHierarchy[] => {
    const parent = join(hierarchy.parent, group.name);
    try {
      if (!existsSync(parent)) mkdirSync(parent);
      const controllers = hierarchy.version === 2 ? delegate(parent) : hierarchy.controllers;
      return [{ ...hierarchy, parent, controllers }];
    } catch {
      return [];
    }
  });
  shareCpu(grouped, group);
  limitGroup(grouped);
  return grouped;
}

/** Creates a group again in the hierarchies where another driver has removed it, because it was empty. They have the group as their parent. */
export function restoreProgramGroup(hierarchies: readonly CgroupHierarchy[], group: ProgramGroup): void {
  const missing = hierarchies.filter(({ parent }) => !existsSync(parent));
  if (missing.length > 0)
    enterProgramGroup(
      missing.map((each) => ({ ...each, parent: dirname(each.parent) })),
      group,
    );
}

/** Gives a group, the parent in these hierarchies, its share of the CPU. Where that is not possible it has that of one program. */
export function shareCpu(hierarchies: readonly CgroupHierarchy[], { cpuShares }: ProgramGroup): void {
  for (const { parent, version, controllers } of hierarchies) {
    if (!controllers.has("cpu")) continue;
    try {
      setCgroupLimit(parent, version, "cpuShares", cpuShares);
    } catch {
      // The cgroup is not delegated to this process.
    }
  }
}

/**
 * The groups of other data directories in these hierarchies, each as the parent of its programs: those whose name is that of `group` up to its
 * last `-`. `hierarchies` are those around the group.
 */
export function neighborGroups(
  hierarchies: readonly CgroupHierarchy[],
  { name }: ProgramGroup,
): readonly (readonly CgroupHierarchy[])[] {
  const prefix = name.slice(0, name.lastIndexOf("-") + 1);
  if (prefix === "") return [];
  const names = new Set(hierarchies.flatMap(({ parent }) => foldersIn(parent)).filter((each) => each.startsWith(prefix)));
  names.delete(name);
  return [...names].map((each) => hierarchies.map((hierarchy) => ({ ...hierarchy, parent: join(hierarchy.parent, each) })));
}

function foldersIn(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/**
 * Removes a group wherever it is empty, and was created before `before` (milliseconds since the epoch; default: at any time). `hierarchies`
 * have the group as their parent. A driver that uses the group creates it again with its next program.
 */
export function removeEmptyGroup(hierarchies: readonly CgroupHierarchy[], before = Number.POSITIVE_INFINITY): void {
  for (const { parent } of hierarchies) {
    try {
      if (statSync(parent).ctimeMs < before) rmdirSync(parent);
    } catch {
      // In use, or already removed.
    }
  }
}
