import { closeSync, openSync, writeFileSync } from "node:fs";
import { createCgroup, entryFilesOf, removeCgroup, removeStaleCgroups } from "../cgroup/cgroup.ts";
import { discoverCgroups, enterShimGroup, removeEmptyParent } from "../cgroup/cgroup-hierarchies.ts";
import type { CgroupHierarchy } from "../cgroup/cgroup-hierarchies.ts";
import type { Deadlines } from "../program/deadlines.ts";
import type { ExecSpec, ProgramSpec, ProgramStats } from "../driver.ts";
import { failedExec, spawnExec } from "../io/exec-session.ts";
import { FifoPool, openAliveEnd } from "../io/fifo-pool.ts";
import { describeError } from "../files/file-error.ts";
import { StartFailure } from "./launcher.ts";
import { limitsFromJson, limitsToJson, withDiskLimit } from "../program/limits-record.ts";
import type { Termination, Identity, LaunchedProgram, Launcher, LaunchRequest, PreparedProgram } from "./launcher.ts";
import { elapsedMs, isAlive, readBootId, readStat } from "./proc.ts";
import { defaultPath } from "../program/program-spec.ts";
import { keepWork } from "../program/size-limit.ts";
import { prepareWorkingDirectory, errorLog, findExecutable, createLogs } from "../program/program-files.ts";
import { hostUser } from "../program/program-user.ts";
import type { ProgramFolder } from "../program/program-folder.ts";
import { createInput } from "../io/program-input.ts";
import { killTree, listTree, programVariable, signalTree, withoutWrapper } from "./process-tree.ts";
import type { ProcessTree } from "./process-tree.ts";
import { exitFileBytes, spawnShim, splitEnvironment } from "../shim/shim.ts";
import type { ProgramFiles } from "../shim/shim.ts";
import { readTermination, readExit } from "../shim/shim-exit.ts";
import type { ReadStartError } from "../shim/shim-exit.ts";
import { watchAdopted } from "../shim/shim-watch.ts";
import { createStatsSampler } from "../cgroup/stats-sampler.ts";
import { createResizer, terminalCommand } from "../io/terminal.ts";
import type { UserIds } from "../program/user.ts";

/** What a launcher executes for a spec. */
export interface Execution {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** Default: the spec's environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Files that it inherits. Default: none. */
  readonly opened?: ProgramFiles;
}

/** What a launcher executes for a command beside a running program. */
export interface JoinedExecution extends Execution {
  /** Paths that are opened for it, as descriptors from 3 on. */
  readonly files: readonly string[];
  /** Folder that is removed once they are open. */
  readonly temporary?: string;
}

/** Runs programs inside another program, such as bubblewrap. */
export interface Wrapping {
  /** Folder that the program sees as `/`, where its command is looked up. Default: the machine's root. */
  readonly rootOf: (request: LaunchRequest) => string | undefined;
  /** What is executed instead of the program. Called once the program is known to be executable. */
  readonly wrap: (request: LaunchRequest, execution: Execution) => Execution;
  /** What is executed for a command beside a running program. */
  readonly join: (request: LaunchRequest, spec: ExecSpec, wrapper: { readonly pid: number }) => Promise<JoinedExecution>;
  /** Why the wrapper could not execute the program, if it exited with this code for that reason. */
  readonly readStartError: ReadStartError;
  /** The disk limit that is enforced for a program, if any. */
  readonly diskLimit: (spec: ProgramSpec) => number | undefined;
}

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

/** Maximum pause, after 1, 2, 4 ... ms, while the program starts inside its wrapper. */
const maxStartPauseMs = 1024;

/** An empty cgroup older than this is abandoned. */
const staleCgroupMs = 60_000;

/** Attempts to remove a cgroup that is still being reaped. */
const maxCgroupRemovals = 8;

/**
 * Launches programs as processes behind a shim (see `shim.ts`), in their own session and, where we may, their own cgroup.
 */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  const hierarchies: readonly CgroupHierarchy[] = options.cgroupParent === false ? [] : discoverCgroups(options.cgroupParent);
  const hasOwnParent = typeof options.cgroupParent === "string";
  const fifos = new FifoPool(options.spareFolder, options.random);
  const bootId = readBootId();
  function executionOf(request: LaunchRequest, user: UserIds | undefined, cwd: string): Execution {
    const [first, ...rest] = request.spec.command;
    if (request.spec.isolation !== undefined && options.wrap === undefined) {
      throw new StartFailure("could not start the program: the process driver does not support isolation", 126);
    }
    const path = findExecutable(request.spec, user, cwd, options.rootOf?.(request));
    // The shell looks the command up again, which preserves argv[0]; it would parse -x as an option.
    const word = first.startsWith("-") ? path : first;
    const execution: Execution = { command: [word, ...rest], cwd };
    return options.wrap?.(request, execution) ?? execution;
  }

  function treeOf(folder: ProgramFolder, spec?: ProgramSpec, shim?: ProcessTree["shim"]): ProcessTree {
    const { program, outsideCgroup } = readExit(folder);
    const isGrouped = program !== undefined && !outsideCgroup;
    const generations = (spec?.terminal === undefined ? 0 : 1) + (options.wrap === undefined ? 0 : 2);
    return {
      tag: folder.tag,
      hierarchies,
      isGrouped,
      ...(shim !== undefined && { shim }),
      ...(program !== undefined && generations > 0 && { wrapper: { ...program, generations } }),
    };
  }

  async function cleanUpCgroup(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    for (let attempt = 0; attempt < maxCgroupRemovals && !removeCgroup(hierarchies, folder.tag); attempt++) {
      await new Promise<void>((resolve) => void deadlines.after(2 ** attempt, resolve));
    }
  }

  function launched(
    request: LaunchRequest,
    shim: { readonly pid: number; readonly startTime: number; readonly isHere: boolean },
    limits: LaunchedProgram["limits"],
    watch: (onEnd: () => void) => () => void,
    lostMessage = "the program's shim was killed, so its exit status is unknown",
  ): LaunchedProgram {
    const { folder, deadlines } = request;
    // The session id is now known to be the program's: its processes are killed as soon as the shim has terminated.
    const tree = treeOf(folder, request.spec, shim.isHere ? shim : undefined);
    const { program } = readExit(folder);
    let resolveEnded: (ending: Termination) => void = () => {};
    const ended = new Promise<Termination>((resolve) => {
      resolveEnded = resolve;
    });
    const detach = watch(() => {
      resolveEnded(readTermination(request, { lostMessage, readStartError: options.readStartError, hierarchies }));
    });
    const sample = createStatsSampler(shim.startTime);
    return {
      pid: program?.pid ?? shim.pid,
      limits,
      ended,
      elapsedMs: () => elapsedMs(shim.startTime),
      async signal(signal) {
        // Right after the start only the wrapper exists, but the signal is for the program.
        for (let pauseMs = 1; !(await signalTree(tree, signal)) && pauseMs <= maxStartPauseMs; pauseMs *= 2) {
          await new Promise<void>((resolve) => void deadlines.after(pauseMs, resolve));
        }
      },
      async kill() {
        await killTree(tree, deadlines);
        // A stopped shim cannot report the exit status.
        if (isAlive(shim.pid, shim.startTime)) process.kill(shim.pid, "SIGCONT");
      },
      async stats(): Promise<ProgramStats> {
        return sample(withoutWrapper(tree, await listTree(tree)));
      },
      resize: createResizer(() => readExit(folder).program?.pid, deadlines),
      async exec(exec) {
        const user = hostUser(request.spec);
        const cwd = request.spec.cwd ?? folder.work;
        const env = { PATH: defaultPath, ...request.spec.env, ...exec.env };
        try {
          findExecutable({ ...request.spec, env, command: exec.command }, user, cwd, options.rootOf?.(request));
        } catch (error) {
          if (!(error instanceof StartFailure)) throw error;
          return failedExec(error, error.exitCode);
        }
        const wrapper = readExit(folder).program;
        const joined = wrapper === undefined ? undefined : await options.join?.(request, exec, wrapper);
        const execution = joined ?? { command: exec.command, cwd, env, files: [] };
        return spawnExec({
          ...execution,
          env: { ...execution.env, [programVariable]: folder.tag },
          groups: entryFilesOf(hierarchies, folder.tag),
          ...(user !== undefined && { user }),
          ...(exec.terminal !== undefined && { terminal: exec.terminal }),
        });
      },
      async cleanUp() {
        await keepWork(folder).catch(() => {});
        await cleanUpCgroup(folder, deadlines);
      },
      detach,
    };
  }

  async function prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    createLogs(folder);
    const user = hostUser(spec);
    const cwd = prepareWorkingDirectory(request, user, options.rootOf?.(request));
    const execution = executionOf(request, user, cwd);
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
    const launch = spec.terminal === undefined ? { words, env: inherited } : terminalCommand(words, inherited, spec.terminal);
    const input = await createInput(request, fifos, user);
    const opened: number[] = [];
    const openFile = (path: string, flags: string): number => {
      const fd = openSync(path, flags, 0o640);
      opened.push(fd);
      return fd;
    };
    try {
      writeFileSync(folder.exit, "\n".repeat(exitFileBytes), { mode: 0o600 });
      const hasFifo = await fifos.take(folder.alive);
      if (hasFifo) opened.push(openAliveEnd(folder.alive));
      const alive = opened[0] ?? "ignore";
      const cgroup = withDiskLimit(
        createCgroup(hierarchies, folder.tag, spec.limits ?? {}, hasOwnParent),
        spec,
        options.diskLimit?.(spec),
      );
      const shim = await spawnShim({
        command: launch.words,
        env: launch.env,
        cwd: execution.cwd,
        ...(input !== undefined && { input }),
        ...(execution.opened !== undefined && { files: execution.opened }),
        ...(user !== undefined && { user }),
        stdout: openFile(folder.stdout, "a"),
        stderr: openFile(errorLog(folder, request.spec), "a"),
        exit: openFile(folder.exit, "r+"),
        alive,
        groups: cgroup.entryFiles.slice(0, 4).map((path) => openFile(path, "w")),
      });
      const startTime = readStat(shim.pid)?.startTime ?? 0;
      if (hasOwnParent) await enterShimGroup(hierarchies, shim.pid);
      return {
        identity: { shimPid: shim.pid, shimStartTime: startTime, bootId, ...limitsToJson(cgroup) },
        async release() {
          await shim.release();
          const outside = readExit(folder).outsideCgroup;
          const limits = outside
            ? { applied: {}, message: "not enforced: the program could not enter its cgroup" }
            : { applied: cgroup.applied, ...(cgroup.message !== undefined && { message: cgroup.message }) };
          return launched(request, { pid: shim.pid, startTime, isHere: true }, limits, (onEnd) => {
            let watching = true;
            void shim.ended.then(() => watching && onEnd());
            return () => {
              watching = false;
              shim.unref();
            };
          });
        },
        async abandon() {
          shim.abandon();
          await shim.ended;
          await cleanUpCgroup(folder, request.deadlines);
        },
      };
    } catch (error) {
      removeCgroup(hierarchies, folder.tag);
      if (error instanceof StartFailure) throw error;
      throw new StartFailure(`could not start the program: ${describeError(error)}`, 126);
    } finally {
      for (const fd of opened) closeSync(fd);
    }
  }

  async function adopt(request: LaunchRequest, identity: Identity): Promise<LaunchedProgram> {
    const shim = { pid: Number(identity.shimPid), startTime: Number(identity.shimStartTime) };
    const isHere = (): boolean => identity.bootId === bootId && isAlive(shim.pid, shim.startTime);
    return launched(
      request,
      { ...shim, isHere: isHere() },
      limitsFromJson(identity),
      (onEnd) => watchAdopted(request, isHere, onEnd),
      identity.bootId === bootId ? undefined : "the machine restarted while the program ran",
    );
  }

  return {
    prepare,
    adopt,
    sweepOrphans() {
      removeStaleCgroups(hierarchies, options.now() - staleCgroupMs);
      return Promise.resolve();
    },
    async sweep(folder, deadlines) {
      await killTree(treeOf(folder), deadlines);
      await cleanUpCgroup(folder, deadlines);
    },
    close() {
      if (typeof options.cgroupParent === "string") removeEmptyParent(options.cgroupParent);
    },
  };
}
