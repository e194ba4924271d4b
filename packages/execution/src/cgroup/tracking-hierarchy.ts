import { join } from "node:path";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";

/**
 * The hierarchy whose cgroup tracks every process of a program, so that they can be listed and killed. On a machine with both versions
 * it is version 1: a process enters its cgroups immediately, and those of version 2 only after an RCU grace period.
 */
export function trackingHierarchy(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy | undefined {
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
export function entryFile({ version, parent }: CgroupHierarchy, name: string): string {
  return join(parent, name, version === 1 ? "tasks" : "cgroup.procs");
}
