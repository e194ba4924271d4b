import { randomBytes } from "node:crypto";
import { entryFilesOf } from "../cgroup/cgroup.ts";
import { updateCgroup } from "../cgroup/cgroup-update.ts";
import { freeze, isFrozen, thaw } from "../cgroup/freezer.ts";
import { createStatsSampler } from "../cgroup/stats-sampler.ts";
import {
  type ExecSession,
  type ExecSpec,
  ExecutionError,
  type ProgramStats,
  type RunningLimits,
  type TerminalSize,
} from "../driver.ts";
import { failedExec, spawnExec } from "../io/exec-session.ts";
import { createResizer } from "../io/terminal.ts";
import { findExecutable } from "../program/files/program-files.ts";
import { defaultPath } from "../program/program-spec.ts";
import { hostUser } from "../program/users/program-user.ts";
import { keepWork } from "../program/files/size-limit.ts";
import { readExit, readTermination } from "../shim/shim-exit.ts";
import { cleanUpCgroup, type LaunchContext, treeOf, withCgroupView } from "./launch-context.ts";
import { type LaunchedProgram, type LaunchRequest, StartFailure, type Termination } from "./launcher.ts";
import { containedExec, createExecTree, type ExecTree } from "./exec-tree.ts";
import { elapsedMs, isAlive } from "./proc.ts";
import {
  execVariable,
  killTree,
  listTree,
  type ProcessTree,
  programVariable,
  signalTree,
  withoutExec,
  withoutWrapper,
} from "./process-tree.ts";

/** Maximum pause, after 1, 2, 4 ... ms, while the program starts inside its wrapper. */
const maxStartPauseMs = 1024;

/** A program behind its shim, as {@link LaunchedProcess} needs it. */
export interface ShimmedProgram {
  readonly shim: { readonly pid: number; readonly startTime: number };
  /** Whether the shim is still that process. */
  readonly isShimAlive: boolean;
  readonly limits: LaunchedProgram["limits"];
  /** Calls `onEnd` once the shim has terminated. Returns a function that stops watching. */
  readonly watch: (onEnd: () => void) => () => void;
  /** Why the exit status is unknown if the shim did not record one. */
  readonly lostMessage: string;
}

/** A program that runs as a process behind a shim. */
export class LaunchedProcess implements LaunchedProgram {
  readonly pid: number;
  readonly limits: LaunchedProgram["limits"];
  readonly ended: Promise<Termination>;
  readonly detach: () => void;
  readonly #context: LaunchContext;
  readonly #request: LaunchRequest;
  readonly #shim: ShimmedProgram["shim"];
  readonly #tree: ProcessTree;
  readonly #sample: ReturnType<typeof createStatsSampler>;
  readonly #resize: ReturnType<typeof createResizer>;

  constructor(context: LaunchContext, request: LaunchRequest, program: ShimmedProgram) {
    const { shim, lostMessage } = program;
    const { wrapping, hierarchies } = context;
    this.#context = context;
    this.#request = request;
    this.#shim = shim;
    // The session id is now known to be the program's: its processes are killed as soon as the shim has terminated.
    this.#tree = treeOf(context, request.folder, request.spec, program.isShimAlive ? shim : undefined);
    this.#sample = createStatsSampler(shim.startTime);
    this.#resize = createResizer(() => readExit(request.folder).program?.pid, context.processes, request.deadlines);
    this.pid = readExit(request.folder).program?.pid ?? shim.pid;
    this.limits = program.limits;
    let resolveEnded: (ending: Termination) => void = () => {};
    this.ended = new Promise((resolve) => {
      resolveEnded = resolve;
    });
    this.detach = program.watch(() => {
      const { readStartError, slots } = wrapping;
      const wasUnreleased = slots?.wasUnreleased;
      const isWrapped = wrapping.wrap !== undefined || request.spec.terminal !== undefined;
      resolveEnded(readTermination(request, { lostMessage, readStartError, wasUnreleased, hierarchies, isWrapped }));
    });
  }

  get cgroupEntries(): readonly string[] {
    return entryFilesOf(this.#context.hierarchies, this.#request.folder.tag);
  }

  elapsedMs(): number {
    return elapsedMs(this.#shim.startTime);
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    // Right after the start only the wrapper exists, but the signal is for the program.
    for (let pauseMs = 1; !(await signalTree(this.#tree, signal)) && pauseMs <= maxStartPauseMs; pauseMs *= 2) {
      await new Promise<void>((resolve) => void this.#request.deadlines.after(pauseMs, resolve));
    }
  }

  async kill(): Promise<void> {
    // Only a running process takes the signals of a stop.
    await this.resume().catch(() => {});
    await killTree(this.#tree, this.#request.deadlines);
    // A stopped shim cannot report the exit status.
    if (isAlive(this.#shim.pid, this.#shim.startTime)) process.kill(this.#shim.pid, "SIGCONT");
  }

  async stats(): Promise<ProgramStats> {
    return this.#sample(withoutWrapper(this.#tree, await listTree(this.#tree)));
  }

  pause(): Promise<void> {
    return freeze(this.#context.hierarchies, this.#request.folder.tag, this.#request.deadlines);
  }

  async resume(): Promise<void> {
    thaw(this.#context.hierarchies, this.#request.folder.tag);
  }

  isPaused(): Promise<boolean> {
    return Promise.resolve(isFrozen(this.#context.hierarchies, this.#request.folder.tag));
  }

  async setLimits(limits: RunningLimits): Promise<void> {
    updateCgroup(this.#context.hierarchies, this.#request.folder.tag, limits);
  }

  resize(size: TerminalSize): Promise<void> {
    return this.#resize(size);
  }

  async exec(exec: ExecSpec): Promise<ExecSession> {
    const { spec, folder } = this.#request;
    const { wrapping } = this.#context;
    if (exec.user !== undefined && wrapping.join === undefined)
      throw new ExecutionError("Unsupported", "user: requires the bubblewrap or containerd driver");
    const user = hostUser(spec);
    const cwd = spec.cwd ?? folder.work;
    const env = { PATH: defaultPath, ...withoutExec({ ...spec.env, ...exec.env }) };
    try {
      findExecutable({ ...spec, env, command: exec.command }, user, cwd, wrapping.rootOf?.(this.#request));
    } catch (error) {
      if (!(error instanceof StartFailure)) throw error;
      return failedExec(error, error.exitCode);
    }
    const wrapper = readExit(folder).program;
    const joined =
      wrapper === undefined ? undefined : await wrapping.join?.(withCgroupView(this.#context, this.#request), exec, wrapper);
    const execution = joined ?? { command: exec.command, cwd: exec.cwd ?? cwd, env, files: [] };
    const tree = exec.isContained === true ? this.#execTree() : undefined;
    const session = spawnExec({
      ...execution,
      ...{ processes: this.#context.processes, deadlines: this.#request.deadlines },
      env: { ...execution.env, [programVariable]: folder.tag, ...(tree && { [execVariable]: tree.id }) },
      ...(spec.oomScoreAdjustment !== undefined && { oomScoreAdjustment: spec.oomScoreAdjustment }),
      groups: tree === undefined ? this.cgroupEntries : createExecTree(tree, this.cgroupEntries),
      ...(user !== undefined && joined?.changesUser !== true && { user }),
      ...(exec.terminal !== undefined && { terminal: exec.terminal }),
    });
    return tree === undefined ? session : containedExec(session, tree);
  }

  #execTree(): ExecTree {
    const { folder, deadlines } = this.#request;
    const id = `exec-${randomBytes(8).toString("hex")}`;
    return { id, tag: folder.tag, hierarchies: this.#context.hierarchies, deadlines };
  }

  async cleanUp({ isDiscarded }: { readonly isDiscarded: boolean }): Promise<void> {
    const { folder, unmounter } = this.#request;
    if (!isDiscarded) await keepWork(folder, unmounter).catch(() => {});
    await cleanUpCgroup(this.#context, this.#request.folder, this.#request.deadlines);
  }
}
