import { mkdirSync, readdirSync, rmdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorCode } from "../files/file-error.ts";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";
import { entryFile, trackingHierarchy } from "./tracking-hierarchy.ts";

/** The names of commands' cgroups, below the cgroup of their program. */
const execPattern = /^exec-[0-9a-f]{16}$/;

/** Whether `id` is the id of a contained command, which is also the name of its cgroup. */
export const isExecId = (id: string): boolean => execPattern.test(id);

/**
 * Creates a cgroup for a command, below that of its program in the hierarchy that tracks processes, so that the program's limits apply to it.
 * Returns `entries`, the program's entry files, with that of the command in place of the program's. Unchanged if it cannot be created.
 */
export function createExecCgroup(
  hierarchies: readonly CgroupHierarchy[],
  tag: string,
  id: string,
  entries: readonly string[],
): readonly string[] {
  const hierarchy = trackingHierarchy(hierarchies);
  const own = hierarchy === undefined ? undefined : entryFile(hierarchy, tag);
  if (hierarchy === undefined || own === undefined || !entries.includes(own)) return entries;
  try {
    mkdirSync(join(dirname(own), id));
    return entries.map((entry) => (entry === own ? entryFile(hierarchy, `${tag}/${id}`) : entry));
  } catch {
    return entries;
  }
}

/** The ids of commands that have a cgroup below that of a program. */
export function execCgroupsOf(hierarchies: readonly CgroupHierarchy[], tag: string): readonly string[] {
  const hierarchy = trackingHierarchy(hierarchies);
  return hierarchy === undefined ? [] : execFoldersIn(join(hierarchy.parent, tag));
}

/**
 * Removes the cgroup of a command, `tag/id`, if its last process has been reaped. Returns whether it has none now. What is left is removed
 * with that of the program.
 */
export function removeExecCgroup(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  const hierarchy = trackingHierarchy(hierarchies);
  if (hierarchy === undefined) return true;
  try {
    rmdirSync(join(hierarchy.parent, name));
    return true;
  } catch (error) {
    return errorCode(error) === "ENOENT";
  }
}

/** The cgroups of commands in the cgroup of a program. */
export function execFoldersIn(folder: string): readonly string[] {
  try {
    // A directory has one link, one from its parent and one from each directory in it.
    return statSync(folder).nlink <= 2 ? [] : readdirSync(folder).filter(isExecId);
  } catch {
    return [];
  }
}
