import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { UsageError } from "@keelson/operator/flags";
import { componentOptions } from "./v8-options.ts";
import type { ComponentConfig, ComponentMessage, SupervisorMessage } from "./messages.ts";

/** A component could not start or did not stop. */
class ComponentError extends Error {
  override readonly name = "ComponentError";
  readonly code = "Component";
}

/** Options of {@link launchProcess}. */
export interface LaunchOptions<C extends ComponentConfig> {
  readonly component: C["component"];
  readonly dataDir: string;
  /** Additional arguments of the component. */
  readonly args?: readonly string[];
  /** The configuration of a restart, for example with the ports of the first start. Default: the same. */
  readonly restartConfig?: (config: C, endpoints: Endpoints) => C;
  readonly clock: Clock;
  readonly log: Logger;
  /** Stops the component while it starts. */
  readonly signal: AbortSignal;
  /** Called when a part of the component has started for the first time. */
  readonly onStarted: (name: string, description: string) => void;
  /** Called with one line when the component exited unexpectedly. */
  readonly onRestart: (line: string) => void;
}

/** Addresses by name. */
export type Endpoints = Readonly<Record<string, string>>;

/** A component in its own process, restarted with backoff. */
export interface SupervisedProcess<C extends ComponentConfig> {
  /**
   * Starts the component and waits until it is ready. Resolves to its addresses. If it exits later, it is restarted with exponential
   * backoff (500 ms to 30 s). Call it once.
   *
   * **Errors**: `ComponentError` or `UsageError` with the component's own message; the signal's reason.
   */
  start(config: C): Promise<Endpoints>;
  /** Stops the process, whether or not it was started. */
  stop(): Promise<void>;
}

const program = fileURLToPath(new URL("../../../bin/keelson.js", import.meta.url));
const minBackoffMs = 500;
const maxBackoffMs = 30_000;
/** A process that ran for this long is considered healthy: its next restart is immediate again. */
const healthyMs = 60_000;
/** A component that does not exit in time is killed. */
const stopTimeoutMs = 45_000;

/** Launches the process of a component, which loads its code and waits for {@link SupervisedProcess.start}. */
export function launchProcess<C extends ComponentConfig>(options: LaunchOptions<C>): SupervisedProcess<C> {
  return new Supervised(options);
}

/** One run of the process. */
interface Run {
  readonly child: ChildProcess;
  /** Resolves to the component's addresses. */
  readonly ready: Promise<Endpoints>;
  /** Resolves to a description of the end. */
  readonly exited: Promise<string>;
}

class Supervised<C extends ComponentConfig> implements SupervisedProcess<C> {
  readonly #options: LaunchOptions<C>;
  readonly #stopping = new AbortController();
  #run: Run;
  #supervision: Promise<unknown>;

  constructor(options: LaunchOptions<C>) {
    this.#options = options;
    this.#run = this.#launch(options.onStarted);
    this.#supervision = this.#run.exited;
  }

  async start(config: C): Promise<Endpoints> {
    const { signal, restartConfig } = this.#options;
    const { child, ready, exited } = this.#run;
    const abort = (): void => this.#requestStop();
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    else send(child, { type: "start", config });
    try {
      const endpoints = await ready;
      this.#supervision = this.#supervise(restartConfig?.(config, endpoints) ?? config, exited);
      return endpoints;
    } catch (error) {
      await exited;
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#requestStop();
    const { child } = this.#run;
    const timer = this.#options.clock.setTimer(stopTimeoutMs, () => child.kill("SIGKILL"));
    await this.#supervision;
    timer.cancel();
  }

  #requestStop(): void {
    send(this.#run.child, { type: "stop" });
  }

  async #supervise(config: C, firstExit: Promise<string>): Promise<void> {
    const { clock, log, onRestart, component } = this.#options;
    let exited = firstExit;
    let startedAt = clock.monotonic();
    let backoffMs = minBackoffMs;
    for (;;) {
      const reason = await exited;
      if (this.#stopping.signal.aborted) return;
      if (clock.monotonic() - startedAt >= healthyMs) backoffMs = minBackoffMs;
      log.error({ component, reason, backoffMs }, "component exited; restarting");
      onRestart(`${component}: ${reason}; restarting in ${backoffMs / 1_000} s`);
      await sleep(clock, backoffMs, this.#stopping.signal).catch(() => {});
      if (this.#stopping.signal.aborted) return;
      backoffMs = Math.min(backoffMs * 2, maxBackoffMs);
      startedAt = clock.monotonic();
      this.#run = this.#launch(() => {});
      send(this.#run.child, { type: "start", config });
      this.#run.ready.then(
        () => log.info({ component }, "component restarted"),
        (error: unknown) => log.error({ component, err: error }, "component failed to start"),
      );
      exited = this.#run.exited;
    }
  }

  #launch(onStarted: (name: string, description: string) => void): Run {
    const { component, dataDir, args = [] } = this.#options;
    // In its own session, so that Ctrl-C reaches only this process, which then stops its components in order.
    const child = fork(program, ["component", component, "--data-dir", dataDir, ...args], {
      detached: true,
      execArgv: [...componentOptions()],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    let failure: string | undefined;
    let isUsageError = false;
    const exited = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(failure ?? error.message));
      child.once("exit", (code, signal) =>
        resolve(failure ?? (signal === null ? `exited with status ${code}` : `killed by ${signal}`)),
      );
    });
    const ready = new Promise<Endpoints>((resolve, reject) => {
      child.on("message", (message: ComponentMessage) => {
        if (message.type === "started") onStarted(message.name, message.description);
        else if (message.type === "ready") resolve(message.endpoints);
        else {
          failure = message.message;
          isUsageError = message.isUsageError;
        }
      });
      void exited.then((reason) =>
        reject(isUsageError ? new UsageError(failure) : new ComponentError(failure ?? `${component}: ${reason}`)),
      );
    });
    // The caller of `start` gets the rejection; a process that is stopped before has no such caller.
    ready.catch(() => {});
    return { child, ready, exited };
  }
}

function send(child: ChildProcess, message: SupervisorMessage): void {
  // The child may have exited in the meantime.
  if (child.connected) child.send(message, () => {});
}
