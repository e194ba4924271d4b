import { chownSync, closeSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createCgroup, discoverCgroups, removeCgroup, wasOomKilled } from "./cgroup.ts";
import type { CgroupHierarchy } from "./cgroup.ts";
import type { Deadlines } from "./deadlines.ts";
import type { Limits, ProgramSpec, ProgramStats } from "./driver.ts";
import { resolveExecutable } from "./executable.ts";
import { FifoPool, openAliveEnd, watchAlive } from "./fifo-pool.ts";
import { describeError } from "./file-error.ts";
import { StartFailure } from "./launcher.ts";
import type { Ending, Identity, LaunchedProgram, Launcher, LaunchRequest, PreparedProgram } from "./launcher.ts";
import { elapsedMs, isAlive, readBootId, readStat, ticksPerSecond } from "./proc.ts";
import { defaultPath } from "./program-spec.ts";
import type { ProgramFolder } from "./program-folder.ts";
import { killTree, listTree, programVariable, signalTree } from "./process-tree.ts";
import type { ProcessTree } from "./process-tree.ts";
import { exitFileBytes, parseExitFile, spawnShim, splitEnvironment } from "./shim.ts";
import type { ExitFile } from "./shim.ts";
import { resolveLocalUser } from "./user.ts";
import type { UserIds } from "./user.ts";

/** The words and place that a launcher really executes for a spec. */
export interface Execution {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
}

/** What {@link createProcessLauncher} needs. */
export interface ProcessLauncherOptions {
  /** Folder for its own files, on the file system of the programs' folders. */
  readonly spareFolder: string;
  readonly random: () => number;
  /** Parent group in every cgroup hierarchy, below its mount; default: the supervisor's own. `false`: use no cgroups. */
  readonly cgroupRoot?: string | false;
  /**
   * Puts a program into something else (bubblewrap). Called after the program was found and may be executed. Default: the
   * spec's own words.
   */
  readonly wrap?: (request: LaunchRequest, execution: Execution) => Execution;
}

const own: UserIds = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

/** The pause between two looks at an adopted shim that holds no FIFO (a file system without them). The only polling here. */
const lookEveryMs = 5000;

/** How often a cgroup that cannot be removed yet is tried again. */
const cgroupRemovals = 8;

function readExit(folder: ProgramFolder): ExitFile {
  try {
    return parseExitFile(readFileSync(folder.exit, "latin1"));
  } catch {
    return { execFailed: false, outsideCgroup: false };
  }
}

/** Where a program's error output goes. */
function errorLog(folder: ProgramFolder, spec: ProgramSpec): string {
  return spec.mergeOutput === true ? folder.stdout : folder.stderr;
}

/** The last words of the error output: what the shell said when it could not execute a program. */
function lastWords(folder: ProgramFolder, spec: ProgramSpec): string {
  try {
    const lines = readFileSync(errorLog(folder, spec), "utf8").trim().split("\n");
    return (lines.at(-1) ?? "").replace(/^.*?: \d+: (?:exec: )?/, "").slice(0, 300);
  } catch {
    return "";
  }
}

/**
 * Launches programs as processes behind a shim (see `shim.ts`), in their own session and, where we may, their own cgroup.
 */
export function createProcessLauncher(options: ProcessLauncherOptions): Launcher {
  const hierarchies: readonly CgroupHierarchy[] = options.cgroupRoot === false ? [] : discoverCgroups(options.cgroupRoot);
  const fifos = new FifoPool(options.spareFolder, options.random);
  const bootId = readBootId();

  function userOf(request: LaunchRequest): UserIds | undefined {
    if (request.spec.user === undefined) return undefined;
    const user = resolveLocalUser(request.spec.user);
    if ("problem" in user) throw new StartFailure(`The program could not be started: ${user.problem}`, 126);
    return user;
  }

  function cwdOf(request: LaunchRequest, user: UserIds | undefined): string {
    const cwd = request.spec.cwd ?? request.folder.work;
    try {
      if (request.spec.cwd === undefined) {
        mkdirSync(cwd, { recursive: true, mode: 0o755 });
        if (user !== undefined && own.uid === 0) chownSync(cwd, user.uid, user.gid);
      }
      if (!statSync(cwd).isDirectory()) throw new StartFailure(`The working directory ${cwd} is not a directory`, 126);
    } catch (error) {
      if (error instanceof StartFailure) throw error;
      throw new StartFailure(`The working directory ${cwd} cannot be used: ${describeError(error)}`, 126);
    }
    return cwd;
  }

  async function executionOf(request: LaunchRequest, user: UserIds | undefined, cwd: string): Promise<Execution> {
    const [first, ...rest] = request.spec.command;
    const searchPath = request.spec.env?.PATH ?? defaultPath;
    const resolved = await resolveExecutable(first, cwd, searchPath, user ?? own);
    if ("problem" in resolved)
      throw new StartFailure(`The program could not be started: ${resolved.problem}`, resolved.exitCode);
    // The shell looks it up once more and so keeps the program's own name for itself (argv[0]); but would take -x for an option.
    const word = first.startsWith("-") ? resolved.path : first;
    const execution: Execution = { command: [word, ...rest], cwd };
    return options.wrap?.(request, execution) ?? execution;
  }

  function treeOf(folder: ProgramFolder, shim?: ProcessTree["shim"]): ProcessTree {
    const { program, outsideCgroup } = readExit(folder);
    const isGrouped = program !== undefined && !outsideCgroup;
    return { tag: folder.tag, hierarchies, isGrouped, ...(shim !== undefined && { shim }) };
  }

  async function cleanUpCgroup(folder: ProgramFolder, deadlines: Deadlines): Promise<void> {
    for (let attempt = 0; attempt < cgroupRemovals && !removeCgroup(hierarchies, folder.tag); attempt++) {
      await new Promise<void>((resolve) => void deadlines.after(2 ** attempt, resolve));
    }
  }

  function launched(
    request: LaunchRequest,
    shim: { readonly pid: number; readonly startTime: number; readonly isHere: boolean },
    limits: LaunchedProgram["limits"],
    watch: (onEnd: () => void) => () => void,
    lostMessage = "The shim that watched the program was killed, so nobody saw how it ended",
  ): LaunchedProgram {
    const { folder, deadlines } = request;
    // Once seen here, the session stays the program's: what it leaves behind is killed as soon as the shim has ended.
    const tree = treeOf(folder, shim.isHere ? shim : undefined);
    const { program } = readExit(folder);
    let resolveEnded: (ending: Ending) => void = () => {};
    const ended = new Promise<Ending>((resolve) => {
      resolveEnded = resolve;
    });
    const detach = watch(() => {
      const exit = readExit(folder);
      if (exit.exitCode === undefined) {
        resolveEnded({ kind: "lost", message: lostMessage });
      } else if (exit.execFailed) {
        const words = lastWords(folder, request.spec);
        resolveEnded({ kind: "start-failed", exitCode: exit.exitCode, message: `The program could not be executed: ${words}` });
      } else {
        const oomKilled = exit.exitCode === 137 && wasOomKilled(hierarchies, folder.tag);
        resolveEnded({ kind: "exited", exitCode: exit.exitCode, oomKilled });
      }
    });
    let sample = { at: 0, ticks: 0 };
    return {
      pid: program?.pid ?? shim.pid,
      limits,
      ended,
      elapsedMs: () => elapsedMs(shim.startTime),
      async signal(signal) {
        await signalTree(tree, signal);
      },
      async kill() {
        await killTree(tree, deadlines);
        // A stopped shim cannot say how the program ended.
        if (isAlive(shim.pid, shim.startTime)) process.kill(shim.pid, "SIGCONT");
      },
      async stats(): Promise<ProgramStats> {
        const stats = await listTree(tree);
        const at = elapsedMs(shim.startTime);
        const ticks = stats.reduce((sum, stat) => sum + stat.cpuTicks, 0);
        const spentMs = (Math.max(ticks - sample.ticks, 0) * 1000) / ticksPerSecond;
        const cpuMillis = at > sample.at ? Math.round((spentMs / (at - sample.at)) * 1000) : 0;
        sample = { at, ticks };
        return { cpuMillis, memoryBytes: stats.reduce((sum, stat) => sum + stat.residentBytes, 0), pids: stats.length };
      },
      cleanUp: () => cleanUpCgroup(folder, deadlines),
      detach,
    };
  }

  async function prepare(request: LaunchRequest): Promise<PreparedProgram> {
    const { spec, folder } = request;
    for (const path of [folder.stdout, folder.stderr]) closeSync(openSync(path, "a", 0o640));
    const user = userOf(request);
    const cwd = cwdOf(request, user);
    const execution = await executionOf(request, user, cwd);
    const { inherited, assignments } = splitEnvironment({ PATH: defaultPath, ...spec.env, [programVariable]: folder.tag });
    const [program] = execution.command;
    if (assignments.length > 0 && program.includes("=")) {
      const names = assignments.map((assignment) => assignment.slice(0, assignment.indexOf("="))).join(", ");
      throw new StartFailure(`A program with "=" in its name cannot have these environment variables: ${names}`, 126);
    }
    const command = assignments.length === 0 ? execution.command : ["env", ...assignments, ...execution.command];
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
      const cgroup = createCgroup(hierarchies, folder.tag, spec.limits ?? {});
      const shim = await spawnShim({
        command,
        env: inherited,
        cwd: execution.cwd,
        ...(user !== undefined && own.uid === 0 && { user }),
        stdout: openFile(folder.stdout, "a"),
        stderr: openFile(errorLog(folder, request.spec), "a"),
        exit: openFile(folder.exit, "r+"),
        alive,
        groups: cgroup.procsFiles.slice(0, 4).map((path) => openFile(path, "w")),
      });
      const startTime = readStat(shim.pid)?.startTime ?? 0;
      return {
        identity: { shimPid: shim.pid, shimStartTime: startTime, bootId, ...limitsToJson(cgroup) },
        async release() {
          await shim.release();
          const outside = readExit(folder).outsideCgroup;
          const limits = outside
            ? { applied: {}, message: "Not limited: the program could not enter its cgroup" }
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
      throw new StartFailure(`The program could not be started: ${describeError(error)}`, 126);
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
      (onEnd) => {
        let stopped = false;
        let cancel = (): void => {};
        const end = (): void => {
          if (stopped) return;
          stopped = true;
          cancel();
          onEnd();
        };
        const fifo = watchAlive(request.folder.alive, end);
        const look = (): void => {
          if (!isHere()) {
            end();
            return;
          }
          const next = request.deadlines.after(lookEveryMs, look);
          cancel = () => next.cancel();
        };
        if (fifo === undefined) {
          look();
        } else {
          cancel = () => fifo.cancel();
          // The order matters: one that dies before the FIFO is open is seen here, one that dies after it there.
          if (!isHere()) end();
        }
        return () => {
          stopped = true;
          cancel();
        };
      },
      identity.bootId === bootId ? undefined : "The machine restarted while the program ran",
    );
  }

  return {
    prepare,
    adopt,
    async sweep(folder, deadlines) {
      await killTree(treeOf(folder), deadlines);
      await cleanUpCgroup(folder, deadlines);
    },
  };
}

function limitsToJson(cgroup: { readonly applied: Limits; readonly message?: string }): Identity {
  return {
    ...(cgroup.applied.cpuMillis !== undefined && { cpuMillis: cgroup.applied.cpuMillis }),
    ...(cgroup.applied.memoryBytes !== undefined && { memoryBytes: cgroup.applied.memoryBytes }),
    ...(cgroup.applied.pids !== undefined && { pids: cgroup.applied.pids }),
    ...(cgroup.message !== undefined && { limitsMessage: cgroup.message }),
  };
}

function limitsFromJson(identity: Identity): LaunchedProgram["limits"] {
  const number = (key: "cpuMillis" | "memoryBytes" | "pids"): Limits =>
    typeof identity[key] === "number" ? { [key]: identity[key] } : {};
  return {
    applied: { ...number("cpuMillis"), ...number("memoryBytes"), ...number("pids") },
    ...(typeof identity.limitsMessage === "string" && { message: identity.limitsMessage }),
  };
}
