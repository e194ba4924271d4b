import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, type FSWatcher, mkdtempSync, readFileSync, rmSync, statSync, watch } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { type Channel, openChannel } from "./channel/channel.ts";
import { launcherLostExitCode, launchFailedExitCode, terminatedExitCode } from "./exit-codes.ts";
import { LauncherWait } from "./launcher/launcher-wait.ts";
import { killLeftoverRanks } from "./leftover-ranks.ts";
import { type LauncherMessage, launcherMessage } from "./channel/messages.ts";
import type { WorkerEnvironment } from "./pod-environment.ts";
import { parseRankFile, type RankEnd, rankEnvironment } from "./rank-wrapper.ts";
import { withLauncherAddress, workerCommand } from "./mpiexec/worker-command.ts";

/** File in the worker's directory that its ranks append their exit status to. */
const rankFileName = "ranks";

const retryDelayMs = 100;
/** Time that running commands have to end after SIGTERM. */
const killGraceMs = 2000;
const programNotFoundExitCode = 127;

/** Options of {@link runWorker}. */
export interface WorkerOptions extends WorkerEnvironment {
  readonly workingDirectory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Writes a log line. */
  readonly log: (message: string) => void;
}

/**
 * Joins the launcher, runs the command that it sends, and stays until the launcher ends the job. Returns the command's exit status, or
 * 111 if the launcher was lost.
 */
export async function runWorker(options: WorkerOptions): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "kmpi-"));
  try {
    return await new Promise<number>((resolve) => new Worker(options, folder, resolve).connect());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A running worker. */
class Worker {
  readonly #options: WorkerOptions;
  readonly #folder: string;
  readonly #resolve: (exitCode: number) => void;
  readonly #wait: LauncherWait;
  #channel: Channel | undefined;
  #daemon: ChildProcess | undefined;
  #daemonExitCode: number | undefined;
  /** Commands of a session's calls that are running. */
  readonly #calls = new Set<ChildProcess>();
  #hasRunCalls = false;
  /** Set when it is stopping: its exit status once the daemon has ended. */
  #exitCode: number | undefined;
  #rankWatcher: FSWatcher | undefined;
  #reportedRanks = 0;
  #isEnded = false;
  #timer: Timer | undefined;

  constructor(options: WorkerOptions, folder: string, resolve: (exitCode: number) => void) {
    this.#options = options;
    this.#folder = folder;
    this.#resolve = resolve;
    this.#wait = new LauncherWait(options.clock.monotonic());
    const terminate = (): void => {
      // Reported before the daemon ends, so that the launcher sees this cause before other workers fail because of it.
      if (this.#daemonExitCode === undefined) this.#reportEnd(terminatedExitCode, "received SIGTERM");
      this.#end(terminatedExitCode);
    };
    options.signal.addEventListener("abort", terminate, { once: true });
    if (options.signal.aborted) terminate();
  }

  get #rankFile(): string {
    return join(this.#folder, rankFileName);
  }

  /** Workers on one machine must not share files of Open MPI: its session directory, and the shared memory of their ranks. */
  get #folderVariables(): Readonly<Record<string, string>> {
    const isOneOfMany = this.#options.host.startsWith("127.");
    return {
      OMPI_MCA_orte_tmpdir_base: this.#folder,
      ...(isOneOfMany ? { OMPI_MCA_btl_vader_backing_directory: this.#folder } : {}),
    };
  }

  connect(): void {
    const { host, port, token, clock, index, log } = this.#options;
    if (this.#exitCode !== undefined) return;
    openChannel({
      ...{ host, port, token, clock },
      onChannel: (channel) => {
        this.#channel = channel;
        channel.send({ type: "join", worker: index });
        return {
          onMessage: (value) => {
            const message = launcherMessage(value);
            if (message !== undefined) this.#onMessage(message);
          },
          onClose: (reason) => {
            if (this.#exitCode === undefined) log(`lost the launcher: ${reason}`);
            this.#end(launcherLostExitCode);
          },
        };
      },
    }).catch((error: NodeJS.ErrnoException) => {
      if (!this.#wait.continuesAfter(error.code, clock.monotonic())) {
        log(`could not connect to the launcher at ${host}:${port}: ${error.message}`);
        this.#end(launcherLostExitCode);
      } else {
        this.#timer = clock.setTimer(retryDelayMs, () => this.connect());
      }
    });
  }

  #onMessage(message: LauncherMessage): void {
    if (message.type === "run" && this.#daemon === undefined) this.#run(message.words);
    if (message.type === "runCall" && this.#exitCode === undefined) this.#runCall(message.call, message.words);
    // The daemon's status decides. A daemon that is still running is about to end.
    if (message.type === "over") this.#end(this.#daemonExitCode ?? message.exitCode, "wait");
  }

  #run(words: readonly string[]): void {
    const { environment, workingDirectory, log } = this.#options;
    const [program = "", ...rest] = workerCommand(words, existsSync);
    const daemon = spawn(program, rest, {
      cwd: workingDirectory,
      env: { ...environment, ...this.#folderVariables, ...rankEnvironment(this.#rankFile) },
      stdio: ["ignore", "inherit", "inherit"],
    });
    this.#daemon = daemon;
    this.#watchRanks();
    daemon.once("error", (error) => {
      log(error.message);
      this.#onDaemonEnded(programNotFoundExitCode, error.message);
    });
    daemon.once("exit", (code, signal) => this.#onDaemonEnded(code ?? 128 + (constants.signals[signal ?? "SIGKILL"] ?? 0)));
  }

  /** Runs a command of a session. mpiexec's daemons connect to the launcher by its address, because its name may not be resolved here. */
  #runCall(call: number, words: readonly string[]): void {
    const { environment, workingDirectory, log, host } = this.#options;
    const [program = "", ...rest] = withLauncherAddress(workerCommand(words, existsSync), host);
    const child = spawn(program, rest, {
      cwd: workingDirectory,
      env: { ...environment, ...this.#folderVariables },
      stdio: ["ignore", "inherit", "inherit"],
    });
    this.#calls.add(child);
    this.#hasRunCalls = true;
    const onEnded = (exitCode: number): void => {
      if (!this.#calls.delete(child)) return;
      this.#channel?.send({ type: "callEnded", call, exitCode });
      if (this.#exitCode !== undefined && this.#calls.size === 0) this.#finish();
    };
    child.once("error", (error) => {
      log(error.message);
      onEnded(programNotFoundExitCode);
    });
    child.once("exit", (code, signal) => onEnded(code ?? 128 + (constants.signals[signal ?? "SIGKILL"] ?? 0)));
  }

  /** Reports ranks as soon as they end. */
  #watchRanks(): void {
    this.#rankWatcher = watch(this.#folder, (_, name) => {
      if (name === rankFileName) this.#reportRanks();
    });
  }

  #reportRanks(): void {
    let ends: readonly RankEnd[];
    try {
      const at = statSync(this.#rankFile).mtimeMs;
      ends = parseRankFile(readFileSync(this.#rankFile, "utf8"), this.#options.index, at);
    } catch {
      return; // No rank has ended yet.
    }
    for (const end of ends.slice(this.#reportedRanks)) this.#channel?.send({ type: "rankEnded", ...end });
    this.#reportedRanks = ends.length;
  }

  #onDaemonEnded(exitCode: number, message?: string): void {
    if (this.#daemonExitCode !== undefined) return;
    this.#daemonExitCode = exitCode;
    this.#reportRanks();
    this.#reportEnd(exitCode, message);
    if (this.#exitCode !== undefined) this.#finish();
  }

  #reportEnd(exitCode: number, message?: string): void {
    this.#channel?.send({ type: "ended", exitCode, ...(message === undefined ? {} : { message }) });
  }

  #end(exitCode: number, daemonMode: "end" | "wait" = "end"): void {
    if (this.#exitCode !== undefined) return;
    this.#exitCode = exitCode;
    this.#timer?.cancel();
    const daemon = this.#daemonExitCode === undefined ? this.#daemon : undefined;
    const running = [...(daemon === undefined ? [] : [daemon]), ...this.#calls];
    if (running.length === 0) return this.#finish();
    if (daemonMode === "end") for (const each of running) each.kill("SIGTERM");
    this.#timer = this.#options.clock.setTimer(killGraceMs, () => {
      for (const each of running) each.kill("SIGKILL");
    });
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#timer?.cancel();
    this.#rankWatcher?.close();
    this.#channel?.close();
    const hasRun = this.#daemon !== undefined || this.#hasRunCalls;
    if (this.#exitCode !== 0 && hasRun) killLeftoverRanks(this.#folder);
    this.#resolve(this.#exitCode ?? launchFailedExitCode);
  }
}
