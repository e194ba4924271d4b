import { readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** A mount as a mountinfo file describes it (proc_pid_mountinfo(5)). */
export interface Mount {
  /** Device of the file system, as `major:minor`. Every file system in memory has its own. */
  readonly device: string;
  /** The directory of the file system that is mounted, `/` for all of it. */
  readonly root: string;
  /** Where it is mounted, seen from the root of the process. */
  readonly point: string;
  /** Type of the file system, such as `tmpfs`. */
  readonly type: string;
}

/**
 * The mount points below a directory, in this process's mount namespace, innermost first. The directory itself is not one of them. They are named
 * as the kernel names them, without symbolic links. Empty if the directory does not exist, and on systems other than Linux.
 */
export function mountPointsBelow(folder: string): readonly string[] {
  const root = realPath(folder);
  if (root === undefined) return [];
  const prefix = root === "/" ? "/" : `${root}/`;
  return mountPoints()
    .filter((path) => path !== root && path.startsWith(prefix))
    .reverse();
}

/** Whether something is mounted at a path. Links in the path of its directory are followed; a link at the path itself is not followed. */
export function isMountPoint(path: string): boolean {
  const folder = realPath(dirname(path));
  return folder !== undefined && mountPoints().includes(join(folder, basename(path)));
}

/** The mounts in the text of a mountinfo file, in the order of their mounts. */
export function parseMounts(mountinfo: string): readonly Mount[] {
  const lines = mountinfo.split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [fields = "", fileSystem = ""] = line.split(" - ");
    const [, , device = "", root = "", point = ""] = fields.split(" ");
    return { device, root: unescapeMount(root), point: unescapeMount(point), type: fileSystem.split(" ")[0] ?? "" };
  });
}

/**
 * The mount points that a process sees, in the order of their mounts, without symbolic links; those of file systems of `type`, or all. Empty
 * on systems other than Linux.
 */
export const readMountPoints = (pid: number | "self", type?: string): readonly string[] =>
  process.platform === "linux"
    ? parseMounts(readFileSync(`/proc/${pid}/mountinfo`, "utf8"))
        .filter((mount) => type === undefined || mount.type === type)
        .map(({ point }) => point)
    : [];

/** All mount points in this process's mount namespace, in the order of their mounts. Empty on systems other than Linux. */
export const mountPoints = (): readonly string[] => readMountPoints("self");

/** The kernel writes white space and backslashes in paths as `\ooo`. */
const unescapeMount = (path: string): string =>
  path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
