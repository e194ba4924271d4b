import { constants, accessSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Limits } from "./driver.ts";
import { describeError, errorCode } from "./file-error.ts";

/** A mounted hierarchy of control groups. */
export interface CgroupHierarchy {
  readonly version: 1 | 2;
  /** Which of our three controllers groups below {@link parent} can have. */
  readonly controllers: ReadonlySet<Controller>;
  /** Folder below which programs get their groups. */
  readonly parent: string;
}

/** The controllers that {@link Limits} needs. */
export type Controller = "cpu" | "memory" | "pids";

const allControllers: readonly Controller[] = ["cpu", "memory", "pids"];

/** Where to look, replaceable in tests. */
export interface CgroupSources {
  readonly mounts: string;
  readonly membership: string;
}

function readSources(): CgroupSources {
  return { mounts: readFileSync("/proc/self/mounts", "utf8"), membership: readFileSync("/proc/self/cgroup", "utf8") };
}

/** A hierarchy as /proc shows it. */
export interface MountedHierarchy {
  readonly version: 1 | 2;
  readonly mount: string;
  /** Our controllers that it is mounted with; a v2 hierarchy tells its own elsewhere. */
  readonly controllers: readonly string[];
  /** This process's group in it. */
  readonly own: string;
}

/** What /proc says is mounted: version, mount point, controllers (v1) and the supervisor's own group. */
export function parseHierarchies(sources: CgroupSources): readonly MountedHierarchy[] {
  const membership = sources.membership.split("\n").flatMap((line) => {
    const match = /^\d+:([^:]*):(.*)$/.exec(line);
    return match === null ? [] : [{ controllers: (match[1] ?? "").split(","), path: match[2] ?? "/" }];
  });
  return sources.mounts.split("\n").flatMap((line): readonly MountedHierarchy[] => {
    const [, mount = "", type = "", options = ""] = line.split(" ");
    if (type === "cgroup2") {
      const own = membership.find((entry) => entry.controllers[0] === "")?.path ?? "/";
      return [{ version: 2, mount, controllers: [], own }];
    }
    if (type !== "cgroup") return [];
    const controllers = options.split(",").filter((option) => (allControllers as readonly string[]).includes(option));
    if (controllers.length === 0) return [];
    const own =
      membership.find((entry) => entry.controllers.some((controller) => controllers.includes(controller)))?.path ?? "/";
    return [{ version: 1, mount, controllers, own }];
  });
}

const isWritable = (path: string): boolean => {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
};

/** Lets children of a v2 group have controllers, as far as the kernel allows; says which they can have. */
function delegate(parent: string): ReadonlySet<Controller> {
  const read = (file: string): readonly string[] => readFileSync(join(parent, file), "utf8").trim().split(/\s+/);
  for (const controller of read("cgroup.controllers")) {
    if (!(allControllers as readonly string[]).includes(controller)) continue;
    try {
      writeFileSync(join(parent, "cgroup.subtree_control"), `+${controller}`);
    } catch {
      // EBUSY where processes live in this very group ("no internal processes", cgroup v2 documentation): not delegated.
    }
  }
  const given = read("cgroup.subtree_control");
  return new Set(allControllers.filter((controller) => given.includes(controller)));
}

/**
 * The hierarchies in which this process may make groups. `root` is the parent group in each, as a path below the mount;
 * default: the supervisor's own, so that whatever limits hold for it hold for its programs too. Writes nothing but
 * `cgroup.subtree_control` of a v2 parent.
 */
export function discoverCgroups(root?: string, sources: CgroupSources = readSources()): readonly CgroupHierarchy[] {
  return parseHierarchies(sources).flatMap((found): readonly CgroupHierarchy[] => {
    const parent = join(found.mount, root ?? found.own);
    if (!existsSync(join(parent, "cgroup.procs")) || !isWritable(parent)) return [];
    if (found.version === 1) {
      return [{ version: 1, parent, controllers: new Set(allControllers.filter((c) => found.controllers.includes(c))) }];
    }
    try {
      return [{ version: 2, parent, controllers: delegate(parent) }];
    } catch {
      return [];
    }
  });
}

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
  /** Files to which a process writes `0` to enter all groups. */
  readonly procsFiles: readonly string[];
}

const limitOf: Readonly<Record<Controller, keyof Limits>> = { cpu: "cpuMillis", memory: "memoryBytes", pids: "pids" };

/** The hierarchy whose group holds every process of a program, so that they can be listed and killed. */
function tracking(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy | undefined {
  return (
    hierarchies.find((hierarchy) => hierarchy.version === 2) ??
    hierarchies.find((hierarchy) => hierarchy.controllers.has("pids")) ??
    hierarchies[0]
  );
}

/** Makes a program's groups and sets its limits. Never throws: what cannot be had is in `message`. */
export function createCgroup(hierarchies: readonly CgroupHierarchy[], name: string, limits: Limits): ProgramCgroup {
  const applied: { cpuMillis?: number; memoryBytes?: number; pids?: number } = {};
  const problems: string[] = [];
  const procsFiles: string[] = [];
  const tracker = tracking(hierarchies);
  for (const hierarchy of hierarchies) {
    const wanted = allControllers.filter((c) => hierarchy.controllers.has(c) && limits[limitOf[c]] !== undefined);
    if (hierarchy !== tracker && wanted.length === 0) continue;
    const folder = join(hierarchy.parent, name);
    try {
      mkdirSync(folder);
    } catch (error) {
      if (errorCode(error) !== "EEXIST") {
        problems.push(`${folder}: ${describeError(error)}`);
        continue;
      }
    }
    procsFiles.push(join(folder, "cgroup.procs"));
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
  return { applied, procsFiles, ...(problems.length > 0 && { message: `Not limited: ${problems.join("; ")}` }) };
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

/** Kills everything in the group at once where the kernel can (v2, Linux 5.14): nothing can fork its way out. */
export function killCgroup(hierarchies: readonly CgroupHierarchy[], name: string): boolean {
  const hierarchy = tracking(hierarchies);
  if (hierarchy?.version !== 2) return false;
  try {
    writeFileSync(join(hierarchy.parent, name, "cgroup.kill"), "1");
    return true;
  } catch {
    return false;
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
