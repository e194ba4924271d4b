import { constants, accessSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";

/** A mounted hierarchy of control groups. */
export interface CgroupHierarchy {
  readonly version: 1 | 2;
  /** Which of our three controllers groups below {@link parent} can have. */
  readonly controllers: ReadonlySet<Controller>;
  /** Folder below which programs get their groups. */
  readonly parent: string;
}

/** The controllers that limits need. */
export type Controller = "cpu" | "memory" | "pids";

/** All that there are of {@link Controller}. */
export const allControllers: readonly Controller[] = ["cpu", "memory", "pids"];

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
  const before = read("cgroup.subtree_control");
  for (const controller of read("cgroup.controllers")) {
    if (!(allControllers as readonly string[]).includes(controller) || before.includes(controller)) continue;
    try {
      writeFileSync(join(parent, "cgroup.subtree_control"), `+${controller}`);
    } catch {
      // EBUSY where processes live in this very group ("no internal processes", cgroup v2 documentation): not delegated.
    }
  }
  const given = read("cgroup.subtree_control");
  return new Set(allControllers.filter((controller) => given.includes(controller)));
}

/** Makes a group and those above it; in version 2 each lets its children have controllers. */
function makeGroup({ version, mount }: MountedHierarchy, path: string): void {
  let folder = mount;
  for (const part of path.split("/").filter(Boolean)) {
    if (version === 2) delegate(folder);
    folder = join(folder, part);
    if (!existsSync(folder)) mkdirSync(folder);
  }
}

/** What is wrong with a path of a group below a hierarchy's mount, or undefined. */
function groupProblem(path: string): string | undefined {
  if (/^(?:\/(?!\.{1,2}(?:\/|$))[\w.@:-]+)+$/.test(path)) return undefined;
  return `cgroupParent: ${JSON.stringify(path)} must be a path such as /keelson/sandboxes, without ..`;
}

/**
 * The hierarchies in which this process may make groups. `root` is the parent group in each, as a path below the mount, which is made
 * where it is not there; default: the supervisor's own, so that whatever limits hold for it hold for its programs too. Throws
 * `Unsupported` for a `root` that is no such path.
 */
export function discoverCgroups(root?: string, sources: CgroupSources = readSources()): readonly CgroupHierarchy[] {
  const problem = root === undefined ? undefined : groupProblem(root);
  if (problem !== undefined) throw new ExecutionError("Unsupported", problem);
  return parseHierarchies(sources).flatMap((found): readonly CgroupHierarchy[] => {
    const parent = join(found.mount, root ?? found.own);
    try {
      if (root !== undefined) makeGroup(found, root);
      if (!existsSync(join(parent, "cgroup.procs")) || !isWritable(parent)) return [];
      if (found.version === 2) return [{ version: 2, parent, controllers: delegate(parent) }];
      return [{ version: 1, parent, controllers: new Set(allControllers.filter((c) => found.controllers.includes(c))) }];
    } catch {
      return [];
    }
  });
}

/** Group of the shims below a parent of their own: no process may be in the parent itself (version 2). */
const shimGroup = "keelson-shims";

/** Moves a process into the shims' group of every hierarchy. Best effort. */
export async function enterShimGroup(hierarchies: readonly CgroupHierarchy[], pid: number): Promise<void> {
  for (const { parent } of hierarchies) {
    const folder = join(parent, shimGroup);
    try {
      if (!existsSync(folder)) mkdirSync(folder);
      await writeFile(join(folder, "cgroup.procs"), String(pid), { flag: "r+" });
    } catch {
      // It stays in its supervisor's group there, and ends when that is killed as a whole.
    }
  }
}

/** Removes a parent group, with the shims' group in it, wherever nothing is in it any more. `parent` is a path below the mounts. */
export function removeEmptyParent(parent: string, { mounts }: Pick<CgroupSources, "mounts"> = readSources()): void {
  const folders = mounts.split("\n").flatMap((line) => {
    const [, mount = "", type = ""] = line.split(" ");
    return type === "cgroup" || type === "cgroup2" ? [join(mount, parent)] : [];
  });
  for (const folder of folders) {
    for (const each of [join(folder, shimGroup), folder]) {
      try {
        rmdirSync(each);
      } catch {
        // Not there, or in use.
      }
    }
  }
}

/** Every hierarchy with our controllers, and `parent` (a path below the mount) in each, to read what somebody else makes there. */
export function listHierarchies(parent: string, sources: CgroupSources = readSources()): readonly CgroupHierarchy[] {
  return parseHierarchies(sources).map(({ version, mount, controllers }) => ({
    version,
    parent: join(mount, parent),
    controllers: new Set(version === 2 ? allControllers : allControllers.filter((c) => controllers.includes(c))),
  }));
}
