import { closeSync } from "node:fs";
import { constants } from "node:os";
import type { Clock } from "@keelson/api-machinery/time";
import { ExecutionError, inCgroups, notEnteredStatus, type Program, type ProgramRoot } from "@keelson/execution";
import { FileError } from "./file-operations.ts";
import { FolderRecords, type FolderReport, reportOf } from "./folder-changes.ts";
import { openSandboxRoot } from "./open-sandbox-root.ts";
import { absolutePath, fileError } from "./sandbox-files.ts";
import { maxWatchedFolders, watchCommand } from "./watch-program.ts";
import { notFoundStatus, Watcher } from "./watcher.ts";

/** Maximum number of watches of one sandbox: each is a process. */
const maxWatches = 16;

/** An active watch. */
export interface FolderWatch {
  /** Its reports. Ends after the directory was removed or renamed, with the sandbox, or after `stop`. Rejects if the watch broke. */
  readonly reports: AsyncIterable<FolderReport>;
  stop(): void;
}

/** What to watch. */
export interface WatchTarget {
  /** Absolute, or relative to the work directory. Links are followed within the sandbox's root. */
  readonly path: string;
  /** Whether the directories below are watched too, except through links. */
  readonly isRecursive: boolean;
}

/** The watches of an agent's sandboxes. */
export class FolderWatches {
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  readonly #watchers = new Set<Watcher>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Watches a directory of a program. Resolves when every later change is reported. The program that reads the events has the permissions of the
   * sandbox's user and no others, see `watch-program.ts`. It is in the sandbox's cgroups, so that the sandbox's limits count it.
   *
   * **Errors**: {@link FileError}, and `ExecutionError` if the program has no files or the agent lacks what a watch needs.
   */
  async open(program: Program, { path, isRecursive }: WatchTarget): Promise<FolderWatch> {
    // It would be frozen before it starts.
    if (program.isPaused) throw new ExecutionError("Paused", "the sandbox is paused; resume it first");
    const release = this.#reserve(program.id);
    try {
      const command = watchCommand(checkedPath(path), isRecursive);
      if (command === undefined)
        throw new ExecutionError(
          "Unsupported",
          `watches require x86-64 or arm64; the agent's CPU architecture is ${process.arch}`,
        );
      const root = await openSandboxRoot(program, this.#clock);
      try {
        return await this.#start(program, command, root, { path, release });
      } finally {
        closeSync(root.fd);
      }
    } catch (error) {
      release();
      throw error;
    }
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.stop();
  }

  /** Counts a watch of a sandbox. The result undoes that, once. */
  #reserve(id: string): () => void {
    const count = this.#counts.get(id) ?? 0;
    if (count >= maxWatches)
      throw new FileError("TooLarge", `more than ${maxWatches} watches of a sandbox at the same time; close one`);
    this.#counts.set(id, count + 1);
    let isCounted = true;
    return () => {
      if (!isCounted) return;
      isCounted = false;
      const rest = (this.#counts.get(id) ?? 1) - 1;
      if (rest === 0) this.#counts.delete(id);
      else this.#counts.set(id, rest);
    };
  }

  async #start(
    program: Program,
    command: readonly [string, ...string[]],
    root: ProgramRoot,
    { path, release }: { readonly path: string; readonly release: () => void },
  ): Promise<FolderWatch> {
    const entered = inCgroups(program.cgroupEntries, asUser(command, root));
    const watcher = new Watcher(program, this.#clock, entered, root.fd);
    this.#watchers.add(watcher);
    void watcher.closed.then(() => {
      this.#watchers.delete(watcher);
      release();
    });
    const records = new FolderRecords();
    const output = watcher.output[Symbol.asyncIterator]();
    const early = await firstRecords(output, records);
    const [first = ""] = early;
    if (first !== "s") {
      if (first === "" && (await watcher.hasEndedWithProgram()))
        throw new ExecutionError("NotRunning", "the sandbox has ended");
      throw startError(path, first, await watcher.closed);
    }
    const stop = (): void => watcher.stop();
    return { reports: reportsOf(output, early.slice(1), records, () => watcher.isExpectedEnd()), stop };
  }
}

function checkedPath(path: string): string {
  try {
    return absolutePath(path);
  } catch (error) {
    throw fileError(path, error);
  }
}

/** A command with the permissions of the sandbox's user. Nothing that it executes could gain privileges. */
function asUser(command: readonly [string, ...string[]], { user }: ProgramRoot): readonly [string, ...string[]] {
  if (process.getuid?.() !== 0) return command;
  const permissions = [
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
  ];
  return ["setpriv", ...permissions, "--no-new-privs", "--", ...command];
}

/** The records of the first part of the output that has one. None if the program exited before. */
async function firstRecords(output: AsyncIterator<Buffer>, records: FolderRecords): Promise<readonly string[]> {
  for (let part = await output.next(); !part.done; part = await output.next()) {
    const found = records.read(part.value);
    if (found.length > 0) return found;
  }
  return [];
}

function startError(path: string, record: string, status: number | null): Error {
  if (record === "" && status === notFoundStatus)
    return new ExecutionError("Unsupported", "watches require setpriv and perl on the agent's machine");
  if (record === "" && status === notEnteredStatus)
    return new FileError("Failed", "the watch could not enter the sandbox's cgroups; its process limit may be reached");
  const limit = `${path}: the watch exceeds ${maxWatchedFolders} directories, or the kernel's limits fs.inotify.*`;
  if (record === "m") return new FileError("TooLarge", limit);
  const { errno } = constants;
  const number = Number(record.slice(1));
  if (number === errno.ENOSPC || number === errno.EMFILE) return new FileError("TooLarge", limit);
  if (number === errno.ENOSYS) return new ExecutionError("Unsupported", "watches require Linux 5.6 or newer");
  const code = Object.entries(errno).find(([, each]) => each === number)?.[0] ?? "";
  return fileError(path, Object.assign(new Error(code), { code }));
}

async function* reportsOf(
  output: AsyncIterator<Buffer>,
  early: readonly string[],
  records: FolderRecords,
  isExpectedEnd: () => Promise<boolean>,
): AsyncGenerator<FolderReport> {
  if (early.length > 0) yield reportOf(early);
  // The next part is read when the caller has taken this one. Until then the kernel's queue keeps the events.
  for (let part = await output.next(); !part.done; part = await output.next()) {
    const report = reportOf(records.read(part.value));
    if (report.changes.length > 0 || report.isLossy) yield report;
  }
  if (!(await isExpectedEnd())) throw new FileError("Failed", "the watch failed; open it again");
}
