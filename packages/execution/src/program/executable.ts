import { closeSync, openSync, readdirSync, readSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { join, resolve } from "node:path";
import { errorCode } from "../files/file-error.ts";
import { pathInRoot } from "../files/root-path.ts";
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

const headBytes = 256;

/** The start of a file; empty where it cannot be read (a program may be executable and not readable). */
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

/** The processor that an ELF file is for (`e_machine`, elf(5)); undefined for other files, -1 for a truncated one. */
function machineOf(head: Buffer): number | undefined {
  if (head.toString("latin1", 0, 4) !== "\u007fELF") return undefined;
  if (head.length < elfHeaderBytes) return -1;
  return head[5] === 2 ? head.readUInt16BE(18) : head.readUInt16LE(18);
}

/** The processor of this process; read once. */
let ownMachine: number | undefined;

function listHandlers(): readonly string[] {
  try {
    return readdirSync("/proc/sys/fs/binfmt_misc");
  } catch {
    return [];
  }
}

/** Processors (x86-64, aarch64) that run another's programs too (i386, arm). */
const alsoRuns: Readonly<Record<number, number>> = { 62: 3, 183: 40 };

/**
 * Why a file would not run as the binary that it is. A shell takes what the kernel refuses (ENOEXEC) for a script and says
 * something about its syntax; this says what is wrong.
 */
function binaryProblem(head: Buffer): string | undefined {
  const machine = machineOf(head);
  if (machine === undefined) return undefined;
  if (machine === -1) return "is a damaged program: it ends within its header";
  ownMachine ??= machineOf(readHead(process.execPath));
  const own = ownMachine;
  if (own === undefined || machine === own || alsoRuns[own] === machine) return undefined;
  // Emulators can be registered for other processors (binfmt_misc); then the kernel knows better than this.
  if (listHandlers().some((name) => name !== "register" && name !== "status")) return undefined;
  return "is a program for another kind of processor";
}

function check(path: string, user: UserIds, root?: string): Resolved {
  let file: Stats;
  try {
    file = statSync(root === undefined ? path : pathInRoot(root, path));
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
 * it is executed. With `root`, paths are those of a program that has this folder as its root. A handful of looks at files that the
 * kernel has at hand: it does not wait.
 */
export function resolveExecutable(command: string, cwd: string, searchPath: string, user: UserIds, root?: string): Resolved {
  let found: Resolved;
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
      // Something of this name that cannot run is a better reason than its absence elsewhere; but look on first.
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
  return "path" in checked
    ? found
    : { problem: `${found.path} needs its interpreter: ${checked.problem}`, exitCode: checked.exitCode };
}
