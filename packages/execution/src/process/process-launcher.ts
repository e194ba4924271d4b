import { closeSync, openSync, writeFileSync } from "node:fs";
import { createCgroup, removeCgroup, removeStaleCgroups } from "../cgroup/cgroup.ts";
import { discoverCgroups, enterShimGroup, removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import { describeError } from "../files/file-error.ts";
import { FifoPool, openAliveEnd } from "../io/fifo-pool.ts";
import { createInput } from "../io/program-input.ts";
import { terminalCommand } from "../io/terminal.ts";
import type { Deadlines } from "../program/deadlines.ts";
import { limitsFromJson, limitsToJson, withDiskLimit } from "../program/limits-record.ts";
import { createLogs, errorLog, findExecutable, prepareWorkingDirectory } from "../program/program-files.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { defaultPath } from "../program/program-spec.ts";
import { hostUser } from "../program/program-user.ts";
import type { UserIds } from "../program/user.ts";
import { readExit } from "../shim/shim-exit.ts";
import { exitFileBytes, spawnShim, splitEnvironment } from "../shim/shim.ts";
import { watchAdopted } from "../shim/shim-watch.ts";
import { cleanUpCgroup, type LaunchContext, treeOf } from "./launch-context.ts";
import { LaunchedProcess } from "./launched-process.ts";
import {
  type Identity,
  type LaunchedProgram,
  type Launcher,
  type LaunchRequest,
  type PreparedProgram,
  StartFailure,
} from "./launcher.ts";
import { isAlive, readBootId, readStat } from "./proc.ts";
import { killTree, programVariable } from "./process-tree.ts";
import type { Execution, Wrapping } from "./wrapping.ts";

/** What {@link createProcessLauncher} needs. */
export interface ProcessLauncherOptions extends Partial<Wrapping> {
  /** Folder for its own files, on the file system of the programs' folders. */
  readonly spareFolder: string;
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** See `ProcessDriverOptions.cgroupParent`. */
  readonly cgroupParent?: string | false;
}

/** An empty cgroup older than this is abandoned. */
const staleCgroupMs = 60_000;

/**
 * Launches programs as processes behind a shim (see `shim.ts`), in their own session and, where we may, their own cgroup.
 */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  return new ProcessLauncher(options);
}

/** What `execve` gets: the command with its arguments, and the environment. */
interface CommandLine {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

type Shim = Awaited<ReturnType<typeof spawnShim>>;
type Cgroup = ReturnType<typeof createCgroup>;

class ProcessLauncher implements Launcher {
  readonly #options: ProcessLauncherOptions;
  readonly #context: LaunchContext;
  readonly #fifos: FifoPool;
  readonly #bootId = readBootId();
  /** Whether the caller named the parent cgroup. */
  readonly #hasOwnParent: boolean;

  constructor(options: ProcessLauncherOptions) {
    const { cgroupParent } = options;
    this.#options = options;
    this.#hasOwnParent = typeof cgroupParent === "string";
    this.#context = { wrapping: options, hierarchies: cgroupParent === false ? [] : discoverCgroups(cgroupParent) };
    this.#fifos = new FifoPool(options.spareFolder, options.random);
  }

  async prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    createLogs(folder);
    const user = hostUser(spec);
    const cwd = prepareWorkingDirectory(request, user, this.#options.rootOf?.(request));
    const execution = this.#executionOf(request, user, cwd);
    const line = commandLine(request, execution);
    const input = await createInput(request, this.#fifos, user);
    const { hierarchies } = this.#context;
    const opened = new OpenedFiles();
    try {
      writeFileSync(folder.exit, "\n".repeat(exitFileBytes), { mode: 0o600 });
      const hasFifo = await this.#fifos.take(folder.alive);
      const alive = hasFifo ? opened.add(openAliveEnd(folder.alive)) : ("ignore" as const);
      const cgroup = withDiskLimit(
        createCgroup(hierarchies, folder.tag, spec.limits ?? {}, this.#hasOwnParent),
        spec,
        this.#options.diskLimit?.(spec),
      );
      const shim = await spawnShim({
        command: line.words,
        env: line.env,
        cwd: execution.cwd,
        ...(input !== undefined && { input }),
        ...(execution.opened !== undefined && { files: execution.opened }),
        ...(user !== undefined && { user }),
        stdout: opened.open(folder.stdout, "a"),
        stderr: opened.open(errorLog(folder, spec), "a"),
        exit: opened.open(folder.exit, "r+"),
        alive,
        groups: cgroup.entryFiles.slice(0, 4).map((path) => opened.open(path, "w")),
      });
      // Takes as long as writing the spec; both must be complete before the program runs.
      const entered = this.#hasOwnParent ? enterShimGroup(hierarchies, shim.pid) : Promise.resolve();
      return this.#prepared(request, shim, cgroup, entered);
    } catch (error) {
      removeCgroup(hierarchies, folder.tag);
      if (error instanceof StartFailure) throw error;
      throw new StartFailure(`could not start the program: ${describeError(error)}`, 126);
    } finally {
      opened.close();
    }
  }

  async adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram> {
    const shim = { pid: Number(identity.shimPid), startTime: Number(identity.shimStartTime) };
    const isSameBoot = identity.bootId === this.#bootId;
    const isShimAlive = (): boolean => isSameBoot && isAlive(shim.pid, shim.startTime);
    return new LaunchedProcess(this.#context, request, {
      shim,
      isShimAlive: isShimAlive(),
      limits: limitsFromJson(identity),
      watch: (onEnd) => watchAdopted(request, isShimAlive, onEnd),
      lostMessage: isSameBoot ? shimKilled : "the machine restarted while the program ran",
    });
  }

  sweepOrphans(): Promise<void> {
    removeStaleCgroups(this.#context.hierarchies, this.#options.now() - staleCgroupMs);
    return Promise.resolve();
  }

  async sweep(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    await killTree(treeOf(this.#context, folder), deadlines);
    await cleanUpCgroup(this.#context, folder, deadlines);
  }

  close(): void {
    const { cgroupParent } = this.#options;
    if (typeof cgroupParent === "string") removeEmptyParent(cgroupParent);
  }

  /** What is executed for a program: its command, or the wrapper around it. Throws {@link StartFailure} if the command is missing. */
  #executionOf(request: LaunchRequest, user: UserIds | undefined, cwd: string): Execution {
    const { wrap, rootOf } = this.#options;
    const [first, ...rest] = request.spec.command;
    if (request.spec.isolation !== undefined && wrap === undefined) {
      throw new StartFailure("could not start the program: the process driver does not support isolation", 126);
    }
    const path = findExecutable(request.spec, user, cwd, rootOf?.(request));
    // The shell looks the command up again, which preserves argv[0]; it would parse -x as an option.
    const command = first.startsWith("-") ? path : first;
    const execution: Execution = { command: [command, ...rest], cwd };
    return wrap?.(request, execution) ?? execution;
  }

  /** The program behind a shim that waits for its release. */
  #prepared(request: LaunchRequest, shim: Shim, cgroup: Cgroup, entered: Promise<void>): PreparedProgram {
    const { folder, deadlines } = request;
    const startTime = readStat(shim.pid)?.startTime ?? 0;
    return {
      identity: { shimPid: shim.pid, shimStartTime: startTime, bootId: this.#bootId, ...limitsToJson(cgroup) },
      release: async () => {
        await entered;
        await shim.release();
        const limits = readExit(folder).outsideCgroup
          ? { applied: {}, message: "not enforced: the program could not enter its cgroup" }
          : { applied: cgroup.applied, ...(cgroup.message !== undefined && { message: cgroup.message }) };
        return new LaunchedProcess(this.#context, request, {
          shim: { pid: shim.pid, startTime },
          isShimAlive: true,
          limits,
          watch: (onEnd) => watchShim(shim, onEnd),
          lostMessage: shimKilled,
        });
      },
      abandon: async () => {
        await entered;
        shim.abandon();
        await shim.ended;
        await cleanUpCgroup(this.#context, folder, deadlines);
      },
    };
  }
}

const shimKilled = "the program's shim was killed, so its exit status is unknown";

/** Calls `onEnd` when a shim that this process started has terminated. Returns a function that stops watching. */
function watchShim(shim: Shim, onEnd: () => void): () => void {
  let isWatching = true;
  void shim.ended.then(() => isWatching && onEnd());
  return () => {
    isWatching = false;
    shim.unref();
  };
}

/** The command line of an execution, in its terminal if it has one. */
function commandLine({ spec, folder }: LaunchRequest, execution: Execution): CommandLine {
  const { inherited, assignments } = splitEnvironment({
    PATH: defaultPath,
    ...(execution.env ?? spec.env),
    [programVariable]: folder.tag,
  });
  const [program] = execution.command;
  if (assignments.length > 0 && program.includes("=")) {
    const names = assignments.map((assignment) => assignment.slice(0, assignment.indexOf("="))).join(", ");
    throw new StartFailure(`a program with "=" in its name cannot have these environment variables: ${names}`, 126);
  }
  const words = assignments.length === 0 ? execution.command : ["env", ...assignments, ...execution.command];
  return spec.terminal === undefined ? { words, env: inherited } : terminalCommand(words, inherited, spec.terminal);
}

/** Descriptors that are open while a shim starts. */
class OpenedFiles {
  readonly #descriptors: number[] = [];

  open(path: string, flags: string): number {
    return this.add(openSync(path, flags, 0o640));
  }

  add(descriptor: number): number {
    this.#descriptors.push(descriptor);
    return descriptor;
  }

  close(): void {
    for (const descriptor of this.#descriptors) closeSync(descriptor);
  }
}
