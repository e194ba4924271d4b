import { chmodSync, chownSync, closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ProgramSpec } from "../../driver.ts";
import { resolveExecutable } from "../executable.ts";
import { describeError } from "../../files/file-error.ts";
import { readLastLine } from "../../logs/log-tail.ts";
import { StartFailure } from "../../process/launcher.ts";
import type { LaunchRequest } from "../../process/launcher.ts";
import type { ProgramFolder } from "./program-folder.ts";
import { defaultPath } from "../program-spec.ts";
import { own } from "../users/program-user.ts";
import { pathInRoot } from "../../files/root-path.ts";
import type { UserIds } from "../users/user.ts";

/** The file that receives a program's standard error. */
export function errorLog(folder: ProgramFolder, spec: ProgramSpec): string {
  return spec.mergeOutput === true ? folder.stdout : folder.stderr;
}

/** The file with the program of a slot, empty or without effect until the slot is claimed. */
export const claimFile = ({ path }: ProgramFolder): string => join(path, "claim");

/** Creates a program's empty log files. */
export function createLogs(folder: ProgramFolder): void {
  for (const path of [folder.stdout, folder.stderr]) closeSync(openSync(path, "a", 0o640));
}

/** The last line of a program's standard error, where its starter reports why it could not execute the program. */
export function readErrorTail(folder: ProgramFolder, spec: ProgramSpec): string {
  return readLastLine(errorLog(folder, spec));
}

/**
 * The working directory of a program, as the program sees it; creates its work directory. `root` is the directory that the program has as
 * `/`, if it is not the machine's root. Throws {@link StartFailure}.
 */
export function prepareWorkingDirectory(request: LaunchRequest, user: UserIds | undefined, root?: string): string {
  const cwd = request.spec.cwd ?? request.folder.work;
  try {
    if (request.spec.cwd === undefined) createWorkFolder(cwd, user);
    const path = root === undefined || request.spec.cwd === undefined ? cwd : pathInRoot(root, cwd);
    if (!statSync(path).isDirectory()) throw new StartFailure(`working directory ${cwd}: not a directory`, 126);
  } catch (error) {
    if (error instanceof StartFailure) throw error;
    throw new StartFailure(`working directory ${cwd}: ${describeError(error)}`, 126);
  }
  return cwd;
}

/** Creates a program's work directory, owned by its user. */
export function createWorkFolder(path: string, user: UserIds | undefined): void {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  if (user !== undefined) chownSync(path, user.uid, user.gid);
}

/** Creates the directory that a program has as `/tmp`. Every user inside may write to it, whatever this process's umask is. */
export function createTemporaryFolder(path: string): void {
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o1777);
}

/** The path of a program that exists and may be executed, below `root` if there is one. Throws {@link StartFailure}. */
export function findExecutable(spec: ProgramSpec, user: UserIds | undefined, cwd: string, root?: string): string {
  const searchPath = spec.env?.PATH ?? defaultPath;
  const resolved = resolveExecutable(spec.command[0], cwd, searchPath, user ?? own, root);
  if ("problem" in resolved) throw new StartFailure(`could not start the program: ${resolved.problem}`, resolved.exitCode);
  return resolved.path;
}
