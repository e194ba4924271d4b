import { readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * The mount points at or below a folder, in this process's mount namespace, innermost first. They are named as the kernel names them,
 * without symbolic links. Empty if the folder does not exist, and on systems other than Linux.
 */
export function mountPointsBelow(folder: string): readonly string[] {
  const root = realPath(folder);
  if (root === undefined) return [];
  const prefix = root === "/" ? "/" : `${root}/`;
  return mountPoints()
    .filter((path) => path === root || path.startsWith(prefix))
    .reverse();
}

/** Whether something is mounted at a path. Links in the path of its folder are followed; a link at the path itself is not followed. */
export function isMountPoint(path: string): boolean {
  const folder = realPath(dirname(path));
  return folder !== undefined && mountPoints().includes(join(folder, basename(path)));
}

/** The mount points in the text of a mountinfo file, in the order of their mounts (proc_pid_mountinfo(5)). */
export function parseMountPoints(mountinfo: string): readonly string[] {
  const lines = mountinfo.split("\n").filter((line) => line !== "");
  return lines.map((line) => unescapeMount(line.split(" ")[4] ?? ""));
}

/** The kernel writes white space and backslashes in paths as `\ooo`. */
const unescapeMount = (path: string): string =>
  path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

const mountPoints = (): readonly string[] =>
  process.platform === "linux" ? parseMountPoints(readFileSync("/proc/self/mountinfo", "utf8")) : [];

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
