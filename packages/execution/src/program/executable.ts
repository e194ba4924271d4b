import { closeSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { join, resolve } from "node:path";
import { errorCode } from "../files/file-error.ts";
import { pathInRoot } from "../files/root-path.ts";
import type { UserIds } from "./users/user.ts";

/** The executable of a command, or why it cannot run and a shell's exit code for that. */
export type ResolvedExecutable = { readonly path: string } | { readonly problem: string; readonly exitCode: 126 | 127 };

/** Whether the mode bits let the user execute the file (root needs any of the three). */
function mayExecute(file: Stats, user: UserIds): boolean {
  if (user.uid === 0) return (file.mode & 0o111) !== 0;
  if (file.uid === user.uid) return (file.mode & 0o100) !== 0;
  if (file.gid === user.gid) return (file.mode & 0o010) !== 0;
  return (file.mode & 0o001) !== 0;
}

const headBytes = 256;

/** The start of a file; empty if it cannot be read (a program may be executable but not readable). */
function readHead(path: string): Buffer {
  try {
    const file = openSync(path, "r");
    try {
      const buffer = Buffer.alloc(headBytes);
      return buffer.subarray(0, readSync(file, buffer, 0, headBytes, 0));
    } finally {
      closeSync(file);
    }
  } catch {
    return Buffer.alloc(0);
  }
}

const elfHeaderBytes = 52;

/** The architecture of an ELF file (`e_machine`, elf(5)); undefined for other files, -1 for a truncated one. */
function machineOf(head: Buffer): number | undefined {
  if (head.toString("latin1", 0, 4) !== "\u007fELF") return undefined;
  if (head.length < elfHeaderBytes) return -1;
  return head[5] === 2 ? head.readUInt16BE(18) : head.readUInt16LE(18);
}

function listHandlers(): readonly string[] {
  try {
    return readdirSync("/proc/sys/fs/binfmt_misc");
  } catch {
    return [];
  }
}

/** Architectures (x86-64, aarch64) that also run another one's programs (i386, arm). */
const alsoRuns: Readonly<Record<number, number>> = { 62: 3, 183: 40 };

/**
 * Explains why the kernel would not run a binary. A shell interprets what the kernel rejects (ENOEXEC) as a script and reports a
 * misleading syntax error.
 */
function binaryProblem(head: Buffer): string | undefined {
  const machine = machineOf(head);
  if (machine === undefined) return undefined;
  if (machine === -1) return "is a truncated executable";
  const own = machineOf(readHead(process.execPath));
  if (own === undefined || machine === own || alsoRuns[own] === machine) return undefined;
  // Emulators for other architectures may be registered (binfmt_misc); leave the decision to the kernel.
  if (listHandlers().some((name) => name !== "register" && name !== "status")) return undefined;
  return "is built for another CPU architecture";
}

function check(path: string, user: UserIds, root?: string): ResolvedExecutable {
  let file: Stats;
  try {
    file = statSync(root === undefined ? path : pathInRoot(root, path));
  } catch (error) {
    if (errorCode(error) === "EACCES") return { problem: `${path}: permission denied`, exitCode: 126 };
    return { problem: `${path}: no such file`, exitCode: 127 };
  }
  if (file.isDirectory()) return { problem: `${path} is a directory, not a program`, exitCode: 126 };
  if (!file.isFile()) return { problem: `${path} is not a regular file`, exitCode: 126 };
  if (!mayExecute(file, user)) return { problem: `${path}: permission denied`, exitCode: 126 };
  return { path };
}

/**
 * Finds the executable of a command as execvp(3) does: a name with a slash is a path relative to `cwd`, any other is looked up in
 * `searchPath`. Checking before the start distinguishes a program that cannot run from one that exited with 127, and gives the reason.
 * What only the kernel can check (search permission on a parent directory) fails at execution. With `root`, paths are those of a program
 * with that root. Reads a few cached files synchronously.
 */
export function resolveExecutable(
  command: string,
  cwd: string,
  searchPath: string,
  user: UserIds,
  root?: string,
): ResolvedExecutable {
  let found: ResolvedExecutable;
  if (command.includes("/")) {
    found = check(resolve(cwd, command), user, root);
  } else {
    found = { problem: `${command}: not found in PATH (${searchPath})`, exitCode: 127 };
    for (const folder of searchPath.split(":")) {
      const candidate = check(resolve(cwd, join(folder, command)), user, root);
      if ("path" in candidate) {
        found = candidate;
        break;
      }
      // A candidate that cannot run explains more than "not found", but a later one may run.
      if (candidate.exitCode === 126 && found.exitCode === 127) found = candidate;
    }
  }
  if ("problem" in found) return found;
  const head = readHead(root === undefined ? found.path : pathInRoot(root, found.path));
  const problem = binaryProblem(head);
  if (problem !== undefined) return { problem: `${found.path} ${problem}`, exitCode: 126 };
  const interpreter = /^#![ \t]*([^\s]+)/.exec(head.toString("latin1"))?.[1];
  if (interpreter === undefined) return found;
  const checked = check(resolve(cwd, interpreter), user, root);
  return "path" in checked ? found : { problem: `${found.path} : interpreter ${checked.problem}`, exitCode: checked.exitCode };
}
