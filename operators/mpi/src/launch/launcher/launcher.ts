import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import type { Clock } from "@keelson/api-machinery/time";
import { type AgentFolder, createAgentFolder } from "../mpiexec/agent-folder.ts";
import { type Channel, type ChannelServer, listenForChannels } from "../channel/channel.ts";
import { launchFailedExitCode } from "../exit-codes.ts";
import { abortMessage, describeRankFailure, lostAbortMessage, mpiexecMessage, withoutAgentRaces } from "./failure-message.ts";
import { hostCount } from "./host-layout.ts";
import { findMpiexec } from "../mpiexec/find-mpiexec.ts";
import type { LaunchEffect, LaunchEvent } from "./launch-events.ts";
import { newLaunch, partialExitGraceMs, stepLaunch } from "./launch-state.ts";
import { type LauncherMessage, workerMessage } from "../channel/messages.ts";
import { labelledLine, type RankLine, RankLines } from "../mpiexec/rank-lines.ts";
import { mpiexecWords, workerHost, workerOfHost } from "../mpiexec/mpiexec-command.ts";
import type { LauncherEnvironment, MpiImplementation } from "../pod-environment.ts";

/** Time to read the rest of mpiexec's standard error after it has ended. */
const stderrGraceMs = 100;

/** Maximum length of mpiexec's standard error that is kept for the failure message. */
const maxStderrLength = 16 * 1024;

/** Options of {@link runLauncher}. */
export interface LauncherOptions extends LauncherEnvironment {
  readonly port: number;
  readonly workingDirectory: string;
  /** Environment of mpiexec. */
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: Clock;
  /** Stops the launcher, which then returns 143. */
  readonly signal: AbortSignal;
  /** Writes a log line. */
  readonly log: (message: string) => void;
  /** Passes on mpiexec's standard error. */
  readonly writeError: (text: string) => void;
  /** Standard output, for labelled lines. */
  readonly output: NodeJS.WritableStream;
  /** Called when mpiexec waits for nothing but the workers. */
  readonly onReady?: () => void;
}

/**
 * Starts mpiexec, receives the launch line of every worker from it, passes the lines to the workers, and returns mpiexec's exit
 * status. Workers may join at any time: before mpiexec has started, they wait for their lines.
 *
 * **Errors**: {@link MpiError}; rejects if the port cannot be opened.
 */
export async function runLauncher(options: LauncherOptions): Promise<number> {
  const { order, environment, workingDirectory } = options;
  const { implementation, path } = findMpiexec(order, environment.PATH ?? "/usr/local/bin:/usr/bin:/bin", workingDirectory);
  const hosts = Array.from({ length: hostCount(order) }, (_, index) => workerHost(index));
  return new Promise((resolve, reject) => {
    const launch = new Launch(options, implementation, resolve, reject);
    const folder = createAgentFolder(hosts, (host, text) =>
      launch.on({ type: "line", host, text, worker: workerOfHost(host) }),
    );
    const [command = "", ...words] = mpiexecWords({ ...options, implementation, mpiexec: path, agent: folder.agent });
    const mpiexec = spawn(command, words, {
      cwd: workingDirectory,
      // Open MPI runs of one user on one machine delete each other's files if they share a directory.
      env: { ...environment, TMPDIR: folder.temporary },
      // Standard error is read for the failure message and passed on.
      stdio: [order.stdin === true ? "inherit" : "ignore", order.labelsOutput === true ? "pipe" : "inherit", "pipe"],
    });
    launch.start(mpiexec, folder);
  });
}

/** A running launch: carries out the effects of {@link stepLaunch}. */
class Launch {
  readonly #options: LauncherOptions;
  readonly #implementation: MpiImplementation;
  readonly #resolve: (exitCode: number) => void;
  readonly #reject: (error: unknown) => void;
  readonly #channels = new Map<number, Channel>();
  readonly #timers: { cancel(): void }[] = [];
  #state;
  /** The end of mpiexec's standard error, with that of the program. */
  #stderr = "";
  #mpiexec: ChildProcess | undefined;
  #folder: AgentFolder | undefined;
  #server: ChannelServer | undefined;

  constructor(
    options: LauncherOptions,
    implementation: MpiImplementation,
    resolve: (exitCode: number) => void,
    reject: (error: unknown) => void,
  ) {
    this.#options = options;
    this.#implementation = implementation;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#state = newLaunch(hostCount(options.order));
  }

  start(mpiexec: ChildProcess, folder: AgentFolder): void {
    const { clock, order, signal, log } = this.#options;
    this.#mpiexec = mpiexec;
    this.#folder = folder;
    void this.#listen();
    mpiexec.once("error", (error) => {
      log(`could not start mpiexec: ${error.message}`);
      this.on({ type: "mpiexecEnded", exitCode: launchFailedExitCode });
    });
    if (order.labelsOutput === true) this.#readLabelled(mpiexec);
    else mpiexec.stderr?.setEncoding("utf8").on("data", (text: string) => this.#onStderr(withoutAgentRaces(text)));
    mpiexec.once("exit", (code, killedBy) => {
      const exitCode = code ?? 128 + (constants.signals[killedBy ?? "SIGKILL"] ?? 0);
      const onEnded = (): void => this.on({ type: "mpiexecEnded", exitCode, ...(killedBy === null ? {} : { killedBy }) });
      // Its daemons end because of it, so nothing later explains this better.
      if (killedBy === "SIGKILL") return onEnded();
      // Wait for the rest of its standard error, but not for agents that keep it open.
      mpiexec.once("close", onEnded);
      this.#timers.push(clock.setTimer(stderrGraceMs, onEnded));
    });
    if (order.startDeadlineMs !== undefined)
      this.#timers.push(clock.setTimer(order.startDeadlineMs, () => this.on({ type: "startDeadline" })));
    const terminate = (): void => this.on({ type: "terminate" });
    if (signal.aborted) terminate();
    signal.addEventListener("abort", terminate, { once: true });
  }

  #onStderr(text: string, labelled = text): void {
    if (labelled !== "") this.#options.writeError(labelled);
    this.#stderr = (this.#stderr + text).slice(-maxStderrLength);
  }

  /** Passes on whole lines with the labels of their ranks. The failure message is found in the lines without labels. */
  #readLabelled({ stdout, stderr }: ChildProcess): void {
    const { output } = this.#options;
    const toBytes = (lines: readonly RankLine[]): Buffer => Buffer.from(lines.map(labelledLine).join(""), "latin1");
    const outLines = new RankLines();
    stdout?.setEncoding("latin1").on("data", (text: string) => {
      if (output.write(toBytes(outLines.push(text)))) return;
      stdout.pause();
      output.once("drain", () => stdout.resume());
    });
    stdout?.once("end", () => output.write(toBytes(outLines.end())));
    const errorLines = new RankLines();
    const onErrors = (lines: readonly RankLine[]): void => {
      if (lines.length === 0) return;
      const plain = Buffer.from(lines.map(({ text }) => `${text}\n`).join(""), "latin1").toString();
      const relevant = withoutAgentRaces(plain);
      this.#onStderr(relevant, relevant === plain ? toBytes(lines).toString() : relevant);
    };
    stderr?.setEncoding("latin1").on("data", (text: string) => onErrors(errorLines.push(text)));
    stderr?.once("end", () => onErrors(errorLines.end()));
  }

  on(event: LaunchEvent): void {
    const [next, effects] = stepLaunch(this.#state, event);
    this.#state = next;
    for (const effect of effects) this.#carryOut(effect);
  }

  #carryOut(effect: LaunchEffect): void {
    switch (effect.type) {
      case "ready":
        return this.#options.onReady?.();
      case "run":
        return this.#send(effect.worker, { type: "run", words: effect.words });
      case "reject":
        return this.#options.log(`worker ${effect.worker} rejected: ${effect.message}`);
      case "endAgent":
        return this.#folder?.endAgent(workerHost(effect.worker), effect.exitCode);
      case "armPartialExit":
        this.#timers.push(
          this.#options.clock.setTimer(partialExitGraceMs, () => this.on({ type: "partialExit", worker: effect.worker })),
        );
        return;
      case "armRankReports":
        this.#timers.push(
          this.#options.clock.setTimer(effect.delayMs, () => this.on({ type: "rankReportsDue", isFinal: effect.isFinal })),
        );
        return;
      case "logFailedRank":
        return this.#options.log(describeRankFailure(effect.failed, this.#options.order.command[0] ?? "", this.#stderr));
      case "logMpiexecMessage": {
        // The failure of a worker says more than what mpiexec concludes from it, unless it follows from a rank's abort.
        const message =
          effect.failedWorkers.length === 0
            ? (mpiexecMessage(this.#stderr) ?? `mpiexec exited with ${effect.exitCode}`)
            : (abortMessage(this.#stderr) ?? this.#lostAbortMessage(effect.exitCode, effect.failedWorkers));
        if (message !== undefined) this.#options.log(message);
        return;
      }
      case "allJoined":
        return;
      case "killMpiexec":
        // SIGTERM is not enough: MPICH's mpiexec ignores it before workers have joined, and exits with 0 afterwards.
        return void this.#mpiexec?.kill("SIGKILL");
      case "log":
        return this.#options.log(effect.message);
      case "finish":
        return this.#finish(effect.exitCode);
    }
  }

  #lostAbortMessage(exitCode: number, failedWorkers: readonly number[]): string | undefined {
    return this.#implementation === "MPICH" ? lostAbortMessage(exitCode, failedWorkers, this.#stderr) : undefined;
  }

  async #listen(): Promise<void> {
    const { podIP, port, token, clock } = this.#options;
    try {
      const server = await listenForChannels({
        host: podIP,
        port,
        token,
        clock,
        onChannel: (channel) => this.#onChannel(channel),
      });
      if (this.#state.isOver) server.close();
      else this.#server = server;
    } catch (error) {
      this.#mpiexec?.kill("SIGKILL");
      this.#folder?.close();
      this.#reject(error);
    }
  }

  #onChannel(channel: Channel) {
    let worker: number | undefined;
    return {
      onMessage: (value: unknown): void => {
        const message = workerMessage(value);
        if (message === undefined || (worker === undefined) !== (message.type === "join")) {
          if (message?.type !== "alive") channel.close();
        } else if (message.type === "join") {
          const hadJoined = this.#state.workers[message.worker]?.hasJoined ?? true;
          if (!hadJoined) this.#channels.set(message.worker, channel);
          this.on({ type: "joined", worker: message.worker });
          const isAccepted = !hadJoined && this.#state.workers[message.worker]?.hasJoined === true;
          if (isAccepted) worker = message.worker;
          else {
            if (!hadJoined) this.#channels.delete(message.worker);
            channel.close();
          }
        } else if (message.type === "ended" && worker !== undefined) {
          const { exitCode, message: text } = message;
          this.on({ type: "ended", worker, exitCode, ...(text === undefined ? {} : { message: text }) });
        } else if (message.type === "rankEnded" && worker !== undefined) {
          const { rank, exitCode, at } = message;
          this.on({ type: "rankEnded", worker, rank, exitCode, at });
        }
      },
      onClose: (message: string): void => {
        if (worker !== undefined) this.on({ type: "lost", worker, message });
      },
    };
  }

  #send(worker: number, message: LauncherMessage): void {
    this.#channels.get(worker)?.send(message);
  }

  #finish(exitCode: number): void {
    for (const timer of this.#timers) timer.cancel();
    for (const [worker, channel] of this.#channels) {
      this.#send(worker, { type: "over", exitCode });
      channel.close();
    }
    this.#server?.close();
    this.#folder?.close();
    this.#resolve(exitCode);
  }
}
