import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { type Channel, type ChannelEvents, type ChannelServer, listenForChannels } from "../channel/channel.ts";
import { launchFailedExitCode } from "../exit-codes.ts";
import { mpiexecMessage, withoutAgentRaces } from "../launcher/failure-message.ts";
import type { LauncherOptions } from "../launcher/launcher.ts";
import { type LauncherMessage, workerMessage } from "../channel/messages.ts";
import { MpiError } from "../mpi-error.ts";
import { sessionMpiexec } from "../mpiexec/find-mpiexec.ts";
import { launchWords } from "../mpiexec/launch-line.ts";
import { createSessionFolder, type SessionFolder } from "../mpiexec/session-folder.ts";
import { defaultPath, sessionEnvironment, sessionHostfile, workerOfName } from "./session-environment.ts";
import { newSession, type SessionEffect, type SessionEvent, stepSession } from "./session-state.ts";

/** Maximum length of the command's standard error that is kept for the failure message. */
const maxStderrLength = 16 * 1024;

/**
 * Runs the command of an order with hosts, which starts mpiexec or ssh itself, and passes everything that it starts on other hosts to the
 * workers. Returns the command's exit status.
 *
 * **Errors**: {@link MpiError} `MpiMismatch`; rejects if the port cannot be opened.
 */
export async function runSession(options: LauncherOptions): Promise<number> {
  return new Promise((resolve, reject) => void new Session(options, resolve).start().catch(reject));
}

/** A running session: carries out the effects of {@link stepSession}. */
class Session {
  readonly #options: LauncherOptions;
  readonly #resolve: (exitCode: number) => void;
  readonly #hosts: readonly string[];
  readonly #channels = new Map<number, Channel>();
  readonly #timers: { cancel(): void }[] = [];
  readonly #folder: SessionFolder;
  readonly #firstEffects: readonly SessionEffect[];
  #state;
  #stderr = "";
  #command: ChildProcess | undefined;
  #server: ChannelServer | undefined;

  constructor(options: LauncherOptions, resolve: (exitCode: number) => void) {
    const { order, environment, workingDirectory } = options;
    this.#options = options;
    this.#resolve = resolve;
    this.#hosts = order.hosts ?? [];
    const mpiexec = sessionMpiexec(order, environment.PATH ?? defaultPath, workingDirectory);
    this.#folder = createSessionFolder(sessionHostfile(order), mpiexec, (call, host, text) =>
      this.#on({ type: "called", call, host, text, worker: workerOfName(this.#hosts, host) }),
    );
    [this.#state, this.#firstEffects] = newSession(this.#hosts.length, order.waitsForWorkers === true);
  }

  async start(): Promise<void> {
    const { podIP, port, token, clock, signal, order, onReady } = this.#options;
    try {
      const onChannel = (channel: Channel): ChannelEvents => this.#onChannel(channel);
      this.#server = await listenForChannels({ host: podIP, port, token, clock, onChannel });
    } catch (error) {
      this.#folder.close();
      throw error;
    }
    onReady?.();
    if (order.startDeadlineMs !== undefined)
      this.#timers.push(clock.setTimer(order.startDeadlineMs, () => this.#on({ type: "startDeadline" })));
    const terminate = (): void => this.#on({ type: "terminate" });
    for (const effect of this.#firstEffects) this.#carryOut(effect);
    signal.addEventListener("abort", terminate, { once: true });
    if (signal.aborted) terminate();
  }

  #on(event: SessionEvent): void {
    const [next, effects] = stepSession(this.#state, event);
    this.#state = next;
    for (const effect of effects) this.#carryOut(effect);
  }

  #carryOut(effect: SessionEffect): void {
    switch (effect.type) {
      case "startCommand":
        return this.#startCommand();
      case "run":
        return this.#send(effect.worker, { type: "runCall", call: effect.call, words: wordsOf(effect.text) });
      case "reject":
        return this.#options.log(`worker ${effect.worker} rejected: ${effect.message}`);
      case "endCall":
        return this.#folder.endCall(effect.call, effect.exitCode);
      case "killCommand":
        return this.#kill();
      case "log":
        return this.#options.log(effect.message);
      case "finish":
        return this.#finish(effect.exitCode);
    }
  }

  #startCommand(): void {
    const { order, workingDirectory, environment, podIP, log, writeError } = this.#options;
    const [program = "", ...words] = order.command;
    const command = spawn(program, words, {
      cwd: workingDirectory,
      env: { ...environment, ...sessionEnvironment(order, this.#folder, environment, podIP) },
      stdio: [order.stdin === true ? "inherit" : "ignore", "inherit", "pipe"],
      // Its own group, so that everything that a shell has started is stopped with it.
      detached: true,
    });
    this.#command = command;
    command.once("error", (error) => {
      log(error.message);
      this.#on({ type: "commandEnded", exitCode: launchFailedExitCode });
    });
    command.stderr?.setEncoding("utf8").on("data", (text: string) => {
      const relevant = withoutAgentRaces(text);
      if (relevant !== "") writeError(relevant);
      this.#stderr = (this.#stderr + relevant).slice(-maxStderrLength);
    });
    command.once("exit", (code, killedBy) => {
      const exitCode = code ?? 128 + (constants.signals[killedBy ?? "SIGKILL"] ?? 0);
      const message = exitCode === 0 || this.#state.stoppedWith !== undefined ? undefined : mpiexecMessage(this.#stderr);
      if (message !== undefined) log(message);
      this.#on({ type: "commandEnded", exitCode });
    });
  }

  #kill(): void {
    const pid = this.#command?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }

  #onChannel(channel: Channel): ChannelEvents {
    let worker: number | undefined;
    return {
      onMessage: (value) => {
        const message = workerMessage(value);
        if (message?.type === "join" && worker === undefined) {
          const hadJoined = this.#state.joined[message.worker] ?? true;
          if (!hadJoined) this.#channels.set(message.worker, channel);
          this.#on({ type: "joined", worker: message.worker });
          if (!hadJoined && this.#state.joined[message.worker] === true) worker = message.worker;
          else channel.close();
        } else if (message?.type === "callEnded" && worker !== undefined) {
          this.#on({ type: "ended", worker, call: message.call, exitCode: message.exitCode });
        } else if (message?.type !== "alive") channel.close();
      },
      onClose: (message) => {
        if (worker !== undefined) this.#on({ type: "lost", worker, message });
      },
    };
  }

  #send(worker: number, message: LauncherMessage): void {
    this.#channels.get(worker)?.send(message);
  }

  #finish(exitCode: number): void {
    // Nothing that the command has left behind outlives it.
    this.#kill();
    for (const timer of this.#timers) timer.cancel();
    for (const [worker, channel] of this.#channels) {
      // The result of the job is that of the command, so workers succeed.
      this.#send(worker, { type: "over", exitCode: 0 });
      channel.close();
    }
    this.#server?.close();
    this.#folder.close();
    this.#resolve(exitCode);
  }
}

/** The words of a command, or a shell that runs it, as ssh does. */
function wordsOf(text: string): readonly string[] {
  try {
    return launchWords(text);
  } catch (error) {
    if (!(error instanceof MpiError)) throw error;
    return ["/bin/sh", "-c", text];
  }
}
