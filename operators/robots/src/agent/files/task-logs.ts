import { randomUUID } from "node:crypto";
import { closeSync, constants, mkdirSync, openSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { openBeneath, PathError } from "@keelson/execution/files";

/** Directory of a task's directory with links to the program's output. */
const logsFolder = "logs";

/** Attempts to replace what another process keeps creating in place of the directory. */
const maxAttempts = 8;

/**
 * Creates the directory `logs` in a task's directory. A program can write to its task's directory, so an earlier one may have put something else in its
 * place, such as a link: that is removed, and not followed. A directory is kept with its files.
 *
 * **Errors**: system errors; a `PathError` with the code `NotDirectory` if a program keeps replacing the directory.
 */
export function createLogs(taskDir: string): void {
  closeSync(openLogs(taskDir));
}

/**
 * Links `logs/stdout.log` and `logs/stderr.log` of a task's directory to the output of its program. Links are replaced and not followed, as in
 * {@link createLogs}.
 *
 * **Errors**: as those of {@link createLogs}; EISDIR if a program created a directory in place of a link.
 */
export function linkLogs(taskDir: string, logs: { readonly stdout: string; readonly stderr: string }): void {
  const folder = openLogs(taskDir);
  try {
    for (const name of ["stdout", "stderr"] as const) {
      const draft = inFolder(folder, `.${randomUUID()}`);
      symlinkSync(logs[name], draft);
      try {
        renameSync(draft, inFolder(folder, `${name}.log`));
      } catch (error) {
        rmSync(draft, { force: true });
        throw error;
      }
    }
  } finally {
    closeSync(folder);
  }
}

/** Opens the directory itself, so that it stays the same one until the descriptor is closed. */
function openLogs(taskDir: string): number {
  using task = openBeneath(taskDir, "", { kind: "directory" });
  const path = inFolder(task.fd, logsFolder);
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    try {
      mkdirSync(path);
    } catch (error) {
      if (!hasCode(error, "EEXIST")) throw error;
    }
    try {
      return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    } catch (error) {
      if (!hasCode(error, "ENOTDIR", "ELOOP", "ENOENT")) throw error;
    }
    rmSync(path, { force: true });
  }
  throw new PathError("NotDirectory", `${logsFolder} is not a directory and cannot be replaced`);
}

/** Leads to the directory of a descriptor, wherever its path leads by now. */
const inFolder = (fd: number, name: string): string => `/proc/self/fd/${fd}/${name}`;

const hasCode = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof Error && "code" in error && typeof error.code === "string" && codes.includes(error.code);
