import { constants, accessSync, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ExecutionError } from "../driver.ts";

/** A mounted hierarchy of control groups. */
export interface CgroupHierarchy {
  readonly version: 1 | 2;
  /** Controllers, of the three that we use, that groups below {@link parent} can have. */
  readonly controllers: ReadonlySet<Controller>;
  /** Where it is mounted. */
  readonly mount: string;
  /** Directory below which programs get their cgroups. */
  readonly parent: string;
}

/** The controllers that limits need. */
export type Controller = "cpu" | "memory" | "pids";

/** Every {@link Controller}. */
const allControllers: readonly Controller[] = ["cpu", "memory", "pids"];

/** The files of /proc that describe cgroups, replaceable in tests. */
export interface CgroupSources {
  readonly mounts: string;
  readonly membership: string;
  /** Controllers of version 2 to use. Default: those that limits need. */
  readonly controllers?: readonly string[];
}

function readSources(): CgroupSources {
  return { mounts: readFileSync("/proc/self/mounts", "utf8"), membership: readFileSync("/proc/self/cgroup", "utf8") };
}

/** A hierarchy as /proc describes it. */
export interface MountedHierarchy {
  readonly version: 1 | 2;
  readonly mount: string;
  /** Controllers of version 1 mounts, of the three that we use; empty for version 2, which lists them in `cgroup.controllers`. */
  readonly controllers: readonly string[];
  /** This process's cgroup in the hierarchy. */
  readonly own: string;
}

/** Parses the mounted hierarchies: version, mount point, controllers (v1) and the supervisor's own cgroup. */
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

/** Enables controllers for the children of a v2 cgroup as far as the kernel allows; returns those that are enabled. */
export function delegate(parent: string, wanted: readonly string[] = allControllers): ReadonlySet<Controller> {
  const before = readWords(parent, "cgroup.subtree_control");
  for (const controller of readWords(parent, "cgroup.controllers")) {
    if (!wanted.includes(controller) || before.includes(controller)) continue;
    try {
      writeFileSync(join(parent, "cgroup.subtree_control"), `+${controller}`);
    } catch {
      // EBUSY where processes live in this very group ("no internal processes", cgroup v2 documentation): not delegated.
    }
  }
  const enabled = readWords(parent, "cgroup.subtree_control");
  return new Set(allControllers.filter((controller) => enabled.includes(controller)));
}

const readWords = (folder: string, file: string): readonly string[] =>
  readFileSync(join(folder, file), "utf8").split(/\s+/).filter(Boolean);

/** Whether the children of a v2 cgroup have all wanted controllers that the cgroup itself has. */
function isDelegated(folder: string, wanted: readonly string[]): boolean {
  const enabled = readWords(folder, "cgroup.subtree_control");
  const own = readWords(folder, "cgroup.controllers");
  return own.every((controller) => !wanted.includes(controller) || enabled.includes(controller));
}

/** Creates a cgroup and its ancestors; in version 2 each ancestor enables the controllers for its children. */
function createGroup({ version, mount }: MountedHierarchy, path: string, wanted: readonly string[]): void {
  let folder = mount;
  for (const part of path.split("/").filter(Boolean)) {
    if (version === 2) delegate(folder, wanted);
    folder = join(folder, part);
    if (!existsSync(folder)) mkdirSync(folder);
  }
}

/** Whether this process is in the root of a container's cgroups. */
const isContainerRoot = ({ mount, own }: MountedHierarchy): boolean => own === "/" && existsSync(join(mount, "cgroup.type"));

/** Group for the processes of a container, which leave the root of its cgroups to groups with controllers. */
const containerGroup = "keelson-init";

/**
 * In a container, the root of the cgroups that it sees is a group like any other, whose processes keep its children from having controllers.
 * Moves them, as container engines that run in containers do. The root of a machine's cgroups has no such rule, and no type.
 */
function vacateRoot(found: MountedHierarchy, wanted: readonly string[]): void {
  const { mount } = found;
  if (!isContainerRoot(found) || !isWritable(mount)) return;
  delegate(mount, wanted);
  if (isDelegated(mount, wanted)) return;
  const folder = join(mount, containerGroup);
  if (!existsSync(folder)) mkdirSync(folder);
  for (const pid of readWords(mount, "cgroup.procs")) {
    try {
      writeFileSync(join(folder, "cgroup.procs"), pid);
    } catch {
      // The process has exited.
    }
  }
}

/** Validates the path of a cgroup below a hierarchy's mount. */
function groupProblem(path: string): string | undefined {
  if (/^(?:\/(?!\.{1,2}(?:\/|$))[\w.@:-]+)+$/.test(path)) return undefined;
  return `cgroupParent: ${JSON.stringify(path)} must be a path such as /keelson/sandboxes, without ..`;
}

/** Parent of the cgroups of programs if the supervisor's own cgroup cannot have children with controllers. */
export const sharedParent = "/keelson";

/**
 * The hierarchies in which this process may create cgroups. `root` is the parent cgroup in each, as a path below the mount, created if
 * missing. Default: the supervisor's own, so that its limits apply to its programs too, or {@link sharedParent} where processes in it, such
 * as the shell of a session, keep its children from having limits. Throws `Unsupported` for an invalid `root`.
 */
export function discoverCgroups(root?: string, sources: CgroupSources = readSources()): readonly CgroupHierarchy[] {
  const problem = root === undefined ? undefined : groupProblem(root);
  if (problem !== undefined) throw new ExecutionError("Unsupported", problem);
  const { controllers: wanted = allControllers } = sources;
  return parseHierarchies(sources).flatMap((found): readonly CgroupHierarchy[] => {
    const { version, mount } = found;
    try {
      if (version === 2) vacateRoot(found, wanted);
      if (root !== undefined) createGroup(found, root, wanted);
      const parent = join(mount, root ?? defaultParent(found, wanted));
      if (!existsSync(join(parent, "cgroup.procs")) || !isWritable(parent)) return [];
      if (version === 2) return [{ version, mount, parent, controllers: delegate(parent, wanted) }];
      return [{ version, mount, parent, controllers: new Set(allControllers.filter((c) => found.controllers.includes(c))) }];
    } catch {
      return [];
    }
  });
}

/** The parent cgroup of programs without a `root`. */
function defaultParent(found: MountedHierarchy, wanted: readonly string[]): string {
  const { version, mount, own } = found;
  const [folder, shared] = [join(mount, own), join(mount, sharedParent)];
  if (version === 1 || !isWritable(mount) || !isWritable(folder)) return own;
  delegate(folder, wanted);
  // In a container, a supervisor that starts again is in the group that its processes have moved to.
  if (isDelegated(folder, wanted) && !isContainerRoot(found)) return own;
  try {
    createGroup(found, sharedParent, wanted);
    delegate(shared, wanted);
    return isDelegated(shared, wanted) ? sharedParent : own;
  } catch {
    return own;
  }
}

/** Cgroup of the shims below a dedicated parent: version 2 allows no process in the parent itself. */
const shimGroup = "keelson-shims";

/** Moves a single-threaded process into the shims' cgroup of every hierarchy. Best effort. */
export async function enterShimGroup(hierarchies: readonly CgroupHierarchy[], pid: number): Promise<void> {
  await Promise.all(hierarchies.map((hierarchy) => enterGroup(hierarchy, pid)));
}

async function enterGroup({ version, parent }: CgroupHierarchy, pid: number): Promise<void> {
  const folder = join(parent, shimGroup);
  try {
    if (!existsSync(folder)) mkdirSync(folder);
    // Moving a whole process waits for an RCU grace period, moving a thread does not. Version 2 cannot move a single thread.
    await writeFile(join(folder, version === 1 ? "tasks" : "cgroup.procs"), String(pid), { flag: "r+" });
  } catch {
    // The shim stays in its supervisor's cgroup of this hierarchy, and is killed if that cgroup is killed as a whole.
  }
}

/** Removes a parent cgroup and the shims' cgroup in it wherever they are empty. `parent` is a path below the mounts. */
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
        // Missing, or in use.
      }
    }
  }
}

/** Every hierarchy with our controllers, and `parent` (a path below the mount) in each, to read cgroups created by another program. */
export function listHierarchies(parent: string, sources: CgroupSources = readSources()): readonly CgroupHierarchy[] {
  return parseHierarchies(sources).map(({ version, mount, controllers }) => ({
    version,
    mount,
    parent: join(mount, parent),
    controllers: new Set(version === 2 ? allControllers : allControllers.filter((c) => controllers.includes(c))),
  }));
}
