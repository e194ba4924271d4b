import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { entryFilesOf, wasOomKilled } from "../cgroup/cgroup.ts";
import { updateCgroup } from "../cgroup/cgroup-update.ts";
import { createStatsSampler } from "../cgroup/stats-sampler.ts";
import {
  type ExecSession,
  type ExecSpec,
  ExecutionError,
  type ProgramStats,
  type RunningLimits,
  type TerminalSize,
} from "../driver.ts";
import { writeFileAtomic } from "../files/atomic-file.ts";
import type { LaunchedProgram, LaunchRequest, Termination } from "../process/launcher.ts";
import { elapsedMs, isAlive } from "../process/proc.ts";
import { killTree, listTree, signalProcess, signalTree } from "../process/process-tree.ts";
import { defaultAction } from "../process/signal-disposition.ts";
import { containerLimits } from "../program/limits/limits-record.ts";
import { readErrorTail } from "../program/files/program-files.ts";
import type { ProgramFolder } from "../program/files/program-folder.ts";
import { exitFileText, parseExitFile } from "../shim/exit-file.ts";
import { type ContainerContext, messageOf, taskStates } from "./container-context.ts";
import { execInContainer } from "./container-exec.ts";
import { resolveContainerUser } from "./container-user.ts";
import { ignoreNotFound, isUnreachable } from "./containerd-api.ts";
import { retryWhileUnreachable } from "./retry.ts";
import { parseStartError } from "./start-error.ts";
import { terminalFlushed } from "./task-output.ts";

/** Attempts to clean up while containerd is unreachable: about 20 s. */
const maxCleanupAttempts = 11;

/** Maximum delay before a failed pause is tried again. */
const maxPauseRetryMs = 400;

/** A program that runs in a container. */
export class LaunchedContainer implements LaunchedProgram {
  readonly pid: number;
  readonly limits: LaunchedProgram["limits"];
  readonly ended: Promise<Termination>;
  readonly #context: ContainerContext;
  readonly #request: LaunchRequest;
  readonly #startTime: number;
  readonly #stopping = new AbortController();
  readonly #sample: ReturnType<typeof createStatsSampler>;
  /** A signal that the kernel does not deliver to process 1 of a namespace, for which we sent SIGKILL instead. */
  #substituted: number | undefined;

  /** `lostMessage` says why the exit status is unknown if containerd does not know the program. */
  constructor(
    context: ContainerContext,
    request: LaunchRequest,
    { pid, startTime }: { readonly pid: number; readonly startTime: number },
    lostMessage: string,
  ) {
    this.#context = context;
    this.#request = request;
    this.#startTime = startTime;
    this.#sample = createStatsSampler(startTime);
    this.pid = pid;
    this.limits = containerLimits(request.spec);
    this.ended = this.#waitForEnd(lostMessage);
  }

  get cgroupEntries(): readonly string[] {
    return entryFilesOf(this.#context.hierarchiesOf(this.#request.folder), this.#request.folder.tag);
  }

  elapsedMs(): number {
    return elapsedMs(this.#startTime);
  }

  async signal(signal: NodeJS.Signals): Promise<void> {
    if (this.#request.spec.isolation?.runtime === "runsc") {
      const { tasks } = this.#context.api;
      // The processes of the machine are gVisor's.
      await ignoreNotFound(tasks.kill({ containerId: this.#request.folder.tag, signal: constants.signals[signal] })).catch(
        () => {},
      );
      return;
    }
    // Right after the start the process is the runtime's init, which would swallow the signal.
    for (let pauseMs = 1; isRuntimeInit(this.pid) && isAlive(this.pid, this.#startTime); pauseMs *= 2) {
      await new Promise<void>((resolve) => void this.#request.deadlines.after(pauseMs, resolve));
    }
    const isDropped = defaultAction(this.pid, signal) === "end";
    await signalTree(this.#context.treeOf(this.#request.folder), signal);
    if (!isDropped) return;
    this.#substituted = constants.signals[signal];
    signalProcess({ pid: this.pid, startTime: this.#startTime }, "SIGKILL");
  }

  async kill(): Promise<void> {
    // Only a running process dies.
    await this.resume().catch(() => {});
    await killTree(this.#context.treeOf(this.#request.folder), this.#request.deadlines);
  }

  async stats(): Promise<ProgramStats> {
    return this.#sample(await listTree(this.#context.treeOf(this.#request.folder)));
  }

  async pause(): Promise<void> {
    for (let pauseMs = 50; ; pauseMs *= 2) {
      if (await this.isPaused()) return;
      try {
        await this.#context.api.tasks.pause({ containerId: this.#request.folder.tag });
        return;
      } catch (error) {
        // runc gives up if a process is not scheduled in time, and thaws the others.
        if (pauseMs > maxPauseRetryMs || !isAlive(this.pid, this.#startTime))
          throw new ExecutionError("Unsupported", `cannot pause the program: ${messageOf(error)}`, { cause: error });
        await new Promise<void>((resolve) => void this.#request.deadlines.after(pauseMs, resolve));
      }
    }
  }

  async resume(): Promise<void> {
    if (!(await this.isPaused())) return;
    try {
      await this.#context.api.tasks.resume({ containerId: this.#request.folder.tag });
    } catch (error) {
      // Another call may have resumed it.
      if (await this.isPaused()) throw error;
    }
  }

  async isPaused(): Promise<boolean> {
    const found = await this.#context.api.tasks.get({ containerId: this.#request.folder.tag }).catch(() => undefined);
    const status = found?.process?.status;
    return status === taskStates.paused || status === taskStates.pausing;
  }

  /** The runtime keeps no limits of a running container except those in its cgroup. */
  async setLimits(limits: RunningLimits): Promise<void> {
    updateCgroup(this.#context.hierarchiesOf(this.#request.folder), this.#request.folder.tag, limits);
  }

  resize(size: TerminalSize): Promise<void> {
    return this.#context.resize(this.#request.folder, size);
  }

  /** The shim holds an end of the input open. */
  endInput(): Promise<void> {
    const { tasks } = this.#context.api;
    return this.#attempt(() => ignoreNotFound(tasks.closeIO({ containerId: this.#request.folder.tag, stdin: true })));
  }

  async exec(exec: ExecSpec): Promise<ExecSession> {
    const { api, fifos, random } = this.#context;
    const { folder } = this.#request;
    const user = exec.user === undefined ? undefined : await resolveContainerUser(this.#context, this.#request, exec.user);
    return execInContainer({ api, fifos, random, containerId: folder.tag, folder, exec, ...(user && { user }) });
  }

  cleanUp(): Promise<void> {
    return this.#attempt(() => this.#context.erase(this.#request.folder));
  }

  detach(): void {
    this.#stopping.abort();
  }

  async #waitForEnd(lostMessage: string): Promise<Termination> {
    const { folder, spec } = this.#request;
    let known = readExitCode(folder);
    if (known === undefined) {
      let exitStatus: number | undefined;
      try {
        exitStatus = await this.#exitStatus();
      } catch (error) {
        // Detached: the next supervisor reads the exit status.
        if (this.#stopping.signal.aborted) return new Promise(() => {});
        return { kind: "lost", message: `could not determine the exit status: ${messageOf(error)}` };
      }
      if (exitStatus === undefined) return { kind: "lost", message: lostMessage };
      const exitCode = this.#substituted !== undefined && exitStatus === 137 ? 128 + this.#substituted : exitStatus;
      known = { exitCode, oomKilled: exitStatus === 137 && wasOomKilled(this.#context.hierarchiesOf(folder), folder.tag) };
      // If this fails (a full disk), the code is lost only if this supervisor dies before it reports it.
      await writeFileAtomic(folder.exit, exitFileText(known), { durable: true }).catch(() => {});
    }
    // When this returns, the shim has written all output.
    await this.#attempt(() => ignoreNotFound(this.#context.api.tasks.delete({ containerId: folder.tag })));
    if (spec.terminal !== undefined) await terminalFlushed(folder);
    const problem = known.exitCode === 1 || known.exitCode === 255 ? parseStartError(readErrorTail(folder, spec)) : undefined;
    if (problem === undefined) return { kind: "exited", ...known };
    const message = `could not execute the program: ${problem.message}`;
    return { kind: "start-failed", exitCode: problem.exitCode, message };
  }

  /** Waits for the task to exit, across restarts of containerd. Undefined if the task no longer exists. */
  #exitStatus(): Promise<number | undefined> {
    const { tasks } = this.#context.api;
    const { signal } = this.#stopping;
    const containerId = this.#request.folder.tag;
    const read = async (): Promise<number | undefined> => {
      try {
        return (await tasks.wait({ containerId }, { signal })).exitStatus;
      } catch (error) {
        if (isUnreachable(error)) throw error;
        // A shim that has exited cannot be waited for, but containerd knows its last status.
        const process = (await ignoreNotFound(tasks.get({ containerId }, { signal })))?.process;
        if (process === undefined || process.status === taskStates.stopped) return process?.exitStatus;
        throw error;
      }
    };
    return retryWhileUnreachable(read, this.#request.deadlines, signal);
  }

  /** Cleans up after a terminated program; failures do not keep its exit status from being reported. */
  async #attempt(call: () => Promise<unknown>): Promise<void> {
    await retryWhileUnreachable(call, this.#request.deadlines, this.#stopping.signal, maxCleanupAttempts).catch(() => {});
  }
}

/** Whether a process is still the OCI runtime's init and not yet the program. */
function isRuntimeInit(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "latin1").startsWith("runc:[");
  } catch {
    return false;
  }
}

/** The exit code that an earlier supervisor recorded. */
function readExitCode(folder: ProgramFolder): { readonly exitCode: number; readonly oomKilled: boolean } | undefined {
  try {
    const { exitCode, oomKilled } = parseExitFile(readFileSync(folder.exit, "latin1"));
    return exitCode === undefined ? undefined : { exitCode, oomKilled };
  } catch {
    return undefined;
  }
}
