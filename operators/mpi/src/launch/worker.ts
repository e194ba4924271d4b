import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { type Channel, openChannel } from "./channel.ts";
import { launchFailedExitCode, terminatedExitCode } from "./launch-state.ts";
import { type LauncherMessage, launcherMessage } from "./messages.ts";
import type { WorkerEnvironment } from "./pod-environment.ts";

/** Exit status of a worker that has lost its launcher. */
export const launcherLostExitCode = 111;
const retryDelayMs = 100;
/** The launcher was ready before this worker was made: a minute is for networks that take their time. */
const connectLimitMs = 60_000;
const killGraceMs = 2000;
const programNotFoundExitCode = 127;

/** What a worker runs with. */
export interface WorkerOptions extends WorkerEnvironment {
  readonly workingDirectory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly say: (message: string) => void;
}

/**
 * Joins the launcher, runs the words that it gives, and stays until the launcher says that the job is over. Answers the exit
 * status: that of what it ran; 111 where the launcher is lost.
 */
export async function runWorker(options: WorkerOptions): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "kmpi-"));
  try {
    return await new Promise<number>((resolve) => new Worker(options, folder, resolve).connect());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A worker's life: connects, runs, ends. */
class Worker {
  readonly #options: WorkerOptions;
  readonly #folder: string;
  readonly #resolve: (exitCode: number) => void;
  readonly #startedAt: number;
  #channel: Channel | undefined;
  #daemon: ChildProcess | undefined;
  #daemonExitCode: number | undefined;
  /** Set when it is to end: with this status, once nothing of it runs. */
  #exitCode: number | undefined;
  #isEnded = false;
  #timer: Timer | undefined;

  constructor(options: WorkerOptions, folder: string, resolve: (exitCode: number) => void) {
    this.#options = options;
    this.#folder = folder;
    this.#resolve = resolve;
    this.#startedAt = options.clock.monotonic();
    const terminate = (): void => {
      // The launcher hears of it before what runs here ends, and so before others end for it.
      if (this.#daemonExitCode === undefined) this.#tellEnd(terminatedExitCode, "it was told to end");
      this.#end(terminatedExitCode);
    };
    options.signal.addEventListener("abort", terminate, { once: true });
    if (options.signal.aborted) terminate();
  }

  connect(): void {
    const { host, port, token, clock, index, say } = this.#options;
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
            if (this.#exitCode === undefined) say(`the launcher is lost: ${reason}`);
            this.#end(launcherLostExitCode);
          },
        };
      },
    }).catch((error: Error) => {
      if (clock.monotonic() - this.#startedAt > connectLimitMs) {
        say(`no launcher at ${host}:${port}: ${error.message}`);
        this.#end(launcherLostExitCode);
      } else {
        this.#timer = clock.setTimer(retryDelayMs, () => this.connect());
      }
    });
  }

  #onMessage(message: LauncherMessage): void {
    if (message.type === "run" && this.#daemon === undefined) this.#run(message.words);
    // Its own part decides how this worker ends; where that goes on, it is about to end by itself.
    if (message.type === "over") this.#end(this.#daemonExitCode ?? message.exitCode, "wait");
  }

  #run(words: readonly string[]): void {
    const { environment, workingDirectory, say } = this.#options;
    const [program = "", ...rest] = words;
    const daemon = spawn(program, rest, {
      cwd: workingDirectory,
      // See the launcher: workers of one machine must not share the folder of Open MPI's sessions.
      env: { ...environment, OMPI_MCA_orte_tmpdir_base: this.#folder },
      stdio: ["ignore", "inherit", "inherit"],
    });
    this.#daemon = daemon;
    daemon.once("error", (error) => {
      say(error.message);
      this.#onDaemonEnded(programNotFoundExitCode, error.message);
    });
    daemon.once("exit", (code, signal) => this.#onDaemonEnded(code ?? 128 + (constants.signals[signal ?? "SIGKILL"] ?? 0)));
  }

  #onDaemonEnded(exitCode: number, message?: string): void {
    if (this.#daemonExitCode !== undefined) return;
    this.#daemonExitCode = exitCode;
    this.#tellEnd(exitCode, message);
    if (this.#exitCode !== undefined) this.#finish();
  }

  #tellEnd(exitCode: number, message?: string): void {
    this.#channel?.send({ type: "ended", exitCode, ...(message === undefined ? {} : { message }) });
  }

  #end(exitCode: number, daemonIsTo: "end" | "wait" = "end"): void {
    if (this.#exitCode !== undefined) return;
    this.#exitCode = exitCode;
    this.#timer?.cancel();
    const daemon = this.#daemon;
    if (daemon === undefined || this.#daemonExitCode !== undefined) return this.#finish();
    if (daemonIsTo === "end") daemon.kill("SIGTERM");
    this.#timer = this.#options.clock.setTimer(killGraceMs, () => void daemon.kill("SIGKILL"));
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#timer?.cancel();
    this.#channel?.close();
    this.#resolve(this.#exitCode ?? launchFailedExitCode);
  }
}
