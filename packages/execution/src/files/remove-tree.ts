import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { promisify } from "node:util";
import { errorCode } from "./file-error.ts";

const run = promisify(execFile);

/**
 * Removes a file, or a folder with all that is in it, if it exists. Programs can nest folders until their paths are longer than any path
 * may be (PATH_MAX), which only rm(1) can remove.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if (errorCode(error) !== "ENAMETOOLONG") throw error;
    await run("rm", ["-rf", "--one-file-system", "--", path]);
  }
}
