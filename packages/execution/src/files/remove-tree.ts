import { execFile } from "node:child_process";
import { opendir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { errorCode } from "./file-error.ts";

const run = promisify(execFile);

/** The most entries that Node.js removes. It keeps all of them in memory and removes those of a directory at the same time. */
const maxEntries = 500;

/**
 * Removes a file, or a directory with all that is in it, if it exists. rm(1) removes what programs can make too large for this process: many
 * files, and directories nested until their paths are longer than any path may be (PATH_MAX).
 */
export async function removeTree(path: string): Promise<void> {
  if (await hasFewEntries(path)) await rm(path, { recursive: true, force: true });
  else await run("rm", ["-rf", "--one-file-system", "--", path]);
}

async function hasFewEntries(path: string): Promise<boolean> {
  const folders = [path];
  let left = maxEntries;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    try {
      for await (const entry of await opendir(folder)) {
        if (--left < 0) return false;
        if (entry.isDirectory()) folders.push(join(folder, entry.name));
      }
    } catch (error) {
      // A file has no entries, and neither has what does not exist.
      if (!["ENOTDIR", "ENOENT"].includes(errorCode(error) ?? "")) return false;
    }
  }
  return true;
}
