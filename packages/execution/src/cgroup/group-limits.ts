import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import type { CgroupHierarchy } from "./cgroup-hierarchies.ts";

/** What a machine has. */
export interface MachineCapacity {
  readonly memoryBytes: number;
  /** Processes and threads. */
  readonly pids: number;
}

/** The parts of what is available around a group that its programs may use together: the rest keeps the supervisor running. */
const groupShares = { memory: 0.95, pids: 0.5 } as const;

/** The part of a group's processes that one program may use. */
const programShare = 0.25;

/** Reads the {@link MachineCapacity} from the operating system. */
function readCapacity(): MachineCapacity {
  const limit = (name: string): number => readLimit(join("/proc/sys/kernel", name));
  return { memoryBytes: totalmem(), pids: Math.min(limit("pid_max"), limit("threads-max")) };
}

/**
 * Limits the memory and the processes of a group, the parent in these hierarchies, so that its programs cannot use up those of the machine,
 * or of the cgroups around the group. Limits that cannot be set are left out.
 */
export function limitGroup(hierarchies: readonly CgroupHierarchy[], machine = readCapacity()): void {
  for (const hierarchy of hierarchies) {
    const { parent, controllers } = hierarchy;
    if (controllers.has("pids")) {
      const available = availableIn(hierarchy, "pids.max", machine.pids);
      writeLimit(join(parent, "pids.max"), available * groupShares.pids);
    }
    if (controllers.has("memory")) {
      const file = hierarchy.version === 2 ? "memory.max" : "memory.limit_in_bytes";
      writeLimit(join(parent, file), availableIn(hierarchy, file, machine.memoryBytes) * groupShares.memory);
    }
  }
}

/** Limits the processes of a program in a group, so that it leaves some to the others. */
export function limitProgramPids(hierarchies: readonly CgroupHierarchy[], name: string): void {
  for (const { parent, controllers } of hierarchies) {
    if (controllers.has("pids")) writeLimit(join(parent, name, "pids.max"), readLimit(join(parent, "pids.max")) * programShare);
  }
}

/** The smallest limit of the cgroups around a group, and that of the machine. */
function availableIn({ mount, parent }: CgroupHierarchy, file: string, ofMachine: number): number {
  let smallest = ofMachine;
  for (let folder = dirname(parent); folder.startsWith(mount); folder = dirname(folder)) {
    smallest = Math.min(smallest, readLimit(join(folder, file)));
  }
  return smallest;
}

/** Infinity if there is none. */
function readLimit(path: string): number {
  try {
    const limit = Number(readFileSync(path, "latin1"));
    return Number.isNaN(limit) ? Number.POSITIVE_INFINITY : limit;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function writeLimit(path: string, limit: number): void {
  if (!Number.isFinite(limit) || !existsSync(path)) return;
  try {
    writeFileSync(path, String(Math.floor(limit)));
  } catch {
    // The cgroup is not delegated to this process, or uses more.
  }
}
