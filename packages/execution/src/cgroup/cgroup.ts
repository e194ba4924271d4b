import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { allControllers } from "./cgroup-hierarchies.ts";
import type { CgroupHierarchy, Controller } from "./cgroup-hierarchies.ts";
import type { Limits } from "../driver.ts";
import { describeError, errorCode } from "../files/file-error.ts";

const cpuPeriodMicros = 100_000;

/** File and value of a limit, in the words of one version. */
function settings(version: 1 | 2, controller: Controller, limits: Limits): readonly (readonly [file: string, value: string])[] {
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

/** The groups of one program. Their names follow from the program, so a later supervisor finds them without a record. */
export interface ProgramCgroup {
  readonly applied: Limits;
  /** Why a limit does not hold, where one does not. */
  readonly message?: string;
  /** Files to which a process with one thread writes `0` to enter all groups. */
  readonly entryFiles: readonly string[];
}

const limitOf: Readonly<Record<Controller, keyof Limits>> = { cpu: "cpuMillis", memory: "memoryBytes", pids: "pids" };

/**
 * The hierarchy whose group holds every process of a program, so that they can be listed and killed. Of a machine with both
 * versions the first: a process enters its groups at once, and a group of the second only after a grace period of the kernel.
 */
function tracking(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy | undefined {
  return (
    hierarchies.find((hierarchy) => hierarchy.version === 1 && hierarchy.controllers.has("pids")) ??
    hierarchies.find((hierarchy) => hierarchy.version === 2) ??
    hierarchies[0]
  );
}

/**
 * The file by which a process enters a group. A move of a whole process locks out every fork of the machine, and waits about
 * 10 ms for that; one of the calling thread alone (`tasks`, Linux 5.5) does not. Threads of version 2 cannot leave their
 * process's group, so there it is the process that moves.
 */
function entryFile({ version, parent }: CgroupHierarchy, name: string): string {
  return join(parent, name, version === 1 ? "tasks" : "cgroup.procs");
}

/**
 * Makes a program's groups and sets its limits. `everywhere`: in every hierarchy, also where nothing is limited, so that it is nowhere
 * in its supervisor's group. Never throws: what cannot be had is in `message`.
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
  const tracker = tracking(hierarchies);
  for (const hierarchy of hierarchies) {
    const wanted = allControllers.filter((c) => hierarchy.controllers.has(c) && limits[limitOf[c]] !== undefined);
    if (!everywhere && hierarchy !== tracker && wanted.length === 0) continue;
    const folder = join(hierarchy.parent, name);
    try {
      // The parent goes when a driver that had it closes and leaves it empty.
      mkdirSync(folder, { recursive: true });
    } catch (error) {
      problems.push(`${folder}: ${describeError(error)}`);
      continue;
    }
    entryFiles.push(entryFile(hierarchy, name));
    for (const controller of wanted) {
      try {
        for (const [file, value] of settings(hierarchy.version, controller, limits)) writeFileSync(join(folder, file), value);
        applied[limitOf[controller]] = limits[limitOf[controller]];
        // Without this a program at its limit swaps instead of ending; machines without swap accounting lack the file.
        const swap = join(folder, hierarchy.version === 2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes");
        if (controller === "memory" && existsSync(swap))
          writeFileSync(swap, hierarchy.version === 2 ? "0" : String(limits.memoryBytes));
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
  return { applied, entryFiles, ...(problems.length > 0 && { message: `Not limited: ${problems.join("; ")}` }) };
}

/** Pids in a program's group; undefined where it has none (no hierarchy, or removed already). */
export function readCgroupPids(hierarchies: readonly CgroupHierarchy[], name: string): readonly number[] | undefined {
  const hierarchy = tracking(hierarchies);
  if (hierarchy === undefined) return undefined;
  try {
    const text = readFileSync(join(hierarchy.parent, name, "cgroup.procs"), "latin1");
    return text.split("\n").filter(Boolean).map(Number);
  } catch {
    return undefined;
  }
}

/** Files to which a process with one thread writes `0` to enter a program's groups, as far as there are any. */
export function entryFilesOf(hierarchies: readonly CgroupHierarchy[], name: string): readonly string[] {
  return hierarchies.map((hierarchy) => entryFile(hierarchy, name)).filter((path) => existsSync(path));
}

/**
 * Takes care that nothing forks its way out while the processes of a group are killed: version 2 kills them all at once (Linux
 * 5.14); version 1 lets them fork no more, and killing is left to the caller.
 */
export function sealCgroup(hierarchies: readonly CgroupHierarchy[], name: string): void {
  const hierarchy = tracking(hierarchies);
  if (hierarchy === undefined) return;
  const [file, value] = hierarchy.version === 2 ? ["cgroup.kill", "1"] : ["pids.max", "0"];
  try {
    writeFileSync(join(hierarchy.parent, name, file), value, { flag: "r+" });
  } catch {
    // The group is gone, or the kernel is older: the caller kills what it sees, again and again.
  }
}

/** Whether the kernel killed a process of the program for want of memory. */
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

/** Removes a program's groups; true when none is left. A group whose last process is still being collected stays a moment. */
export function removeCgroup(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  let gone = true;
  for (const { parent } of hierarchies) {
    try {
      rmdirSync(join(parent, name));
    } catch (error) {
      if (errorCode(error) !== "ENOENT") gone = false;
    }
  }
  return gone;
}

const tagPattern = /^keelson-[0-9a-f]{16}$/;

/**
 * Removes groups of programs in which nothing is and that are older than `before` (milliseconds since the epoch): what supervisors that
 * were killed left. A younger one may be another supervisor's that is about to be entered; one that tells of want of memory may still be
 * asked for that.
 */
export function removeStaleCgroups(hierarchies: readonly CgroupHierarchy[], before: number): void {
  for (const { parent } of hierarchies) {
    for (const name of namesIn(parent)) {
      const folder = join(parent, name);
      try {
        if (!tagPattern.test(name) || statSync(folder).ctimeMs >= before || wasOomKilled(hierarchies, name)) continue;
        rmdirSync(folder);
      } catch {
        // In use, or gone.
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
