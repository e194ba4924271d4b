import { open, stat } from "node:fs/promises";
import type { Stats } from "node:fs";
import { join, resolve } from "node:path";
import { errorCode } from "./file-error.ts";
import type { UserIds } from "./user.ts";

/** What was found for a command's first word: a path, or why it cannot run and the exit code that shells give that. */
export type Resolved = { readonly path: string } | { readonly problem: string; readonly exitCode: 126 | 127 };

/** Whether the user may execute the file, by its mode bits (root needs any of the three). */
function mayExecute(file: Stats, user: UserIds): boolean {
  if (user.uid === 0) return (file.mode & 0o111) !== 0;
  if (file.uid === user.uid) return (file.mode & 0o100) !== 0;
  if (file.gid === user.gid) return (file.mode & 0o010) !== 0;
  return (file.mode & 0o001) !== 0;
}

/** The interpreter in a script's first line, or undefined for anything else. */
async function readInterpreter(path: string): Promise<string | undefined> {
  let start: string;
  try {
    const handle = await open(path, "r");
    try {
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(256), 0, 256, 0);
      start = buffer.toString("latin1", 0, bytesRead);
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
  return /^#![ \t]*([^\s]+)/.exec(start)?.[1];
}

async function check(path: string, user: UserIds): Promise<Resolved> {
  let file: Stats;
  try {
    file = await stat(path);
  } catch (error) {
    if (errorCode(error) === "EACCES") return { problem: `${path}: permission denied`, exitCode: 126 };
    return { problem: `${path}: there is no such file`, exitCode: 127 };
  }
  if (file.isDirectory()) return { problem: `${path} is a directory, not a program`, exitCode: 126 };
  if (!file.isFile()) return { problem: `${path} is not a regular file`, exitCode: 126 };
  if (!mayExecute(file, user)) return { problem: `${path} may not be executed: permission denied`, exitCode: 126 };
  return { path };
}

/**
 * Finds the program of a command as execvp(3) does: a word with a slash is a path (from `cwd`), another is looked up in
 * `searchPath`. Done before the start so that a program that cannot run is told from one that ran and exited with 127, and
 * with a reason. What only the kernel can see (a folder above that is closed to the user, a wrong architecture) shows when
 * it is executed.
 */
export async function resolveExecutable(command: string, cwd: string, searchPath: string, user: UserIds): Promise<Resolved> {
  let found: Resolved;
  if (command.includes("/")) {
    found = await check(resolve(cwd, command), user);
  } else {
    found = { problem: `${command}: not found in PATH (${searchPath})`, exitCode: 127 };
    for (const folder of searchPath.split(":")) {
      const candidate = await check(resolve(cwd, join(folder, command)), user);
      if ("path" in candidate) {
        found = candidate;
        break;
      }
      // Something of this name that cannot run is a better reason than its absence elsewhere; but look on first.
      if (candidate.exitCode === 126 && found.exitCode === 127) found = candidate;
    }
  }
  if ("problem" in found) return found;
  const interpreter = await readInterpreter(found.path);
  if (interpreter === undefined) return found;
  const checked = await check(resolve(cwd, interpreter), user);
  return "path" in checked
    ? found
    : { problem: `${found.path} needs its interpreter: ${checked.problem}`, exitCode: checked.exitCode };
}
