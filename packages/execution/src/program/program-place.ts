import { chmodSync, chownSync, closeSync, mkdirSync, openSync, statSync } from "node:fs";
import type { ProgramSpec } from "../driver.ts";
import { resolveExecutable } from "./executable.ts";
import { describeError } from "../files/file-error.ts";
import { lastLine } from "../logs/last-line.ts";
import { StartFailure } from "../process/launcher.ts";
import type { LaunchRequest } from "../process/launcher.ts";
import type { ProgramFolder } from "./program-folder.ts";
import { defaultPath } from "./program-spec.ts";
import { pathInRoot } from "../files/root-path.ts";
import { homeIn, readPasswd, resolveLocalUser, resolveUser } from "./user.ts";
import type { UserIds } from "./user.ts";

/** The supervisor's own user. */
export const own: UserIds = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

/** Where a program's error output goes. */
export function errorLog(folder: ProgramFolder, spec: ProgramSpec): string {
  return spec.mergeOutput === true ? folder.stdout : folder.stderr;
}

/** Makes a program's empty logs. */
export function makeLogs(folder: ProgramFolder): void {
  for (const path of [folder.stdout, folder.stderr]) closeSync(openSync(path, "a", 0o640));
}

/** The last words of the error output: what a program's starter said when it could not execute it. */
export function lastWords(folder: ProgramFolder, spec: ProgramSpec): string {
  return lastLine(errorLog(folder, spec));
}

/**
 * The user of a program; undefined where it is the supervisor's own. With a root of its own, names are those of that, and whoever is not
 * root gets a user that the program sees and nobody else. Throws {@link StartFailure}.
 */
export function userOf(spec: ProgramSpec): UserIds | undefined {
  if (spec.user === undefined) return undefined;
  const root = spec.isolation?.root;
  const user = root === undefined ? resolveLocalUser(spec.user) : resolveUser(spec.user, readPasswd(root), "its image");
  if ("problem" in user) throw new StartFailure(`The program could not be started: ${user.problem}`, 126);
  return user;
}

/** The user that a program really runs as; undefined where it is the supervisor's own. Throws {@link StartFailure}. */
export function outsideUser(spec: ProgramSpec): UserIds | undefined {
  const user = userOf(spec);
  return own.uid === 0 ? user : undefined;
}

/** The home of a program's user in its root. */
export function homeOf(spec: ProgramSpec): string {
  return homeIn(readPasswd(spec.isolation?.root), userOf(spec)?.uid ?? own.uid);
}

/**
 * The working directory of a program, as the program sees it; its own work folder is made. `root` is the folder that the program
 * has as `/`, where that is another than the machine's. Throws {@link StartFailure}.
 */
export function cwdOf(request: LaunchRequest, user: UserIds | undefined, root?: string): string {
  const cwd = request.spec.cwd ?? request.folder.work;
  try {
    if (request.spec.cwd === undefined) makeWork(cwd, user);
    const place = root === undefined || request.spec.cwd === undefined ? cwd : pathInRoot(root, cwd);
    if (!statSync(place).isDirectory()) throw new StartFailure(`The working directory ${cwd} is not a directory`, 126);
  } catch (error) {
    if (error instanceof StartFailure) throw error;
    throw new StartFailure(`The working directory ${cwd} cannot be used: ${describeError(error)}`, 126);
  }
  return cwd;
}

/** Makes a program's work folder, its user's. */
export function makeWork(path: string, user: UserIds | undefined): void {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  if (user !== undefined) chownSync(path, user.uid, user.gid);
}

/** Makes what a program has as `/tmp`: every user of it may write there, whatever this process's umask is. */
export function makeTemporary(path: string): void {
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o1777);
}

/** The path of a program that is there and may be executed, below `root` if there is one. Throws {@link StartFailure}. */
export function executableOf(spec: ProgramSpec, user: UserIds | undefined, cwd: string, root?: string): string {
  const searchPath = spec.env?.PATH ?? defaultPath;
  const resolved = resolveExecutable(spec.command[0], cwd, searchPath, user ?? own, root);
  if ("problem" in resolved) throw new StartFailure(`The program could not be started: ${resolved.problem}`, resolved.exitCode);
  return resolved.path;
}
