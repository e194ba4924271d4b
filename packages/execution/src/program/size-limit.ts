import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import type { ProgramFolder } from "./program-folder.ts";

const run = promisify(execFile);

/** The mount points below a folder. */
function mountsBelow(path: string): readonly string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((target) => target.startsWith(`${path}/`));
}

/** Unmounts the file systems with a size limit that a program had. */
export async function unmountBelow(path: string): Promise<void> {
  const mounts = mountsBelow(path);
  if (mounts.length > 0) await run("umount", ["--lazy", ...mounts]);
}

/** Copies without following links, then swaps the copy with the mount. A crash in between leaves the mount, and the next attempt repeats. */
const keepScript = `
rm -rf "$1.kept" && cp -a "$1" "$1.kept" && umount --lazy "$@" && rmdir "$1" && mv "$1.kept" "$1"
`;

/**
 * Moves the work folder of a terminated program from memory, where its size limit kept it, to the disk, and drops its `/tmp`. Does nothing
 * for a program without a size limit.
 */
export async function keepWork({ path, work }: ProgramFolder): Promise<void> {
  const mounts = mountsBelow(path);
  if (mounts.length === 0) return;
  const others = mounts.filter((mount) => mount !== work);
  if (mounts.includes(work)) await run("/bin/sh", ["-c", keepScript, "keelson-keep", work, ...others]);
  else await run("umount", ["--lazy", ...others]);
}
