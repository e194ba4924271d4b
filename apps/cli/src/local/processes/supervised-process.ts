import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { UsageError } from "@keelson/operator/flags";
import type { ComponentConfig, ComponentMessage, SupervisorMessage } from "./messages.ts";

/** A component could not start or did not stop. */
class ComponentError extends Error {
  override readonly name = "ComponentError";
  readonly code = "Component";
}

/** Options of {@link startSupervisedProcess}. */
export interface SupervisedProcessOptions<C extends ComponentConfig> {
  readonly config: C;
  /** The configuration of a restart, for example with the ports of the first start. Default: the same. */
  readonly restartConfig?: (config: C, endpoints: Readonly<Record<string, string>>) => C;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Called when a part of the component has started for the first time. */
  readonly onStarted: (name: string, description: string) => void;
  /** Called with one line when the component exited unexpectedly. */
  readonly onRestart: (line: string) => void;
}

/** A component in a process of its own, restarted with backoff. */
export interface SupervisedProcess {
  /** Addresses by name, as of the first start. */
  readonly endpoints: Readonly<Record<string, string>>;
  /** The current pid, for diagnostics; `undefined` between restarts. */
  readonly pid: number | undefined;
  stop(): Promise<void>;
}

const program = fileURLToPath(new URL("../../../bin/keelson.js", import.meta.url));
const minBackoffMs = 500;
const maxBackoffMs = 30_000;
/** A process that ran for this long is considered healthy: its next restart is immediate again. */
const healthyMs = 60_000;
/** A component that does not exit in time is killed. */
const stopTimeoutMs = 45_000;

/**
 * Starts a component and waits until it is ready. If it exits later, it is restarted with exponential backoff (500 ms to 30 s).
 *
 * **Errors**: `ComponentError` or `UsageError` with the component's own message if the first start fails; the signal's reason.
 */
export async function startSupervisedProcess<C extends ComponentConfig>(
  options: SupervisedProcessOptions<C>,
): Promise<SupervisedProcess> {
  const supervised = new Supervised(options);
  await supervised.start();
  return supervised;
}

class Supervised<C extends ComponentConfig> implements SupervisedProcess {
  endpoints: Readonly<Record<string, string>> = {};
  readonly #options: SupervisedProcessOptions<C>;
  readonly #stopping = new AbortController();
  #config: C;
  #child: ChildProcess | undefined;
  #supervision: Promise<void> = Promise.resolve();

  constructor(options: SupervisedProcessOptions<C>) {
    this.#options = options;
    this.#config = options.config;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const { config, signal, onStarted, restartConfig } = this.#options;
    const run = this.#run(onStarted);
    const abort = (): void => this.#requestStop();
    signal.addEventListener("abort", abort, { once: true });
    try {
      this.endpoints = await run.ready;
    } catch (error) {
      await run.exited;
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
    this.#config = restartConfig?.(config, this.endpoints) ?? config;
    this.#supervision = this.#supervise(run.exited);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#requestStop();
    const child = this.#child;
    const timer = this.#options.clock.setTimer(stopTimeoutMs, () => child?.kill("SIGKILL"));
    await this.#supervision;
    timer.cancel();
  }

  #requestStop(): void {
    if (this.#child?.connected) this.#send(this.#child, { type: "stop" });
  }

  #send(child: ChildProcess, message: SupervisorMessage): void {
    // The child may have exited in the meantime.
    child.send(message, () => {});
  }

  async #supervise(firstExit: Promise<string>): Promise<void> {
    const { clock, log, onRestart } = this.#options;
    const { component } = this.#config;
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
      const run = this.#run(() => {});
      run.ready.then(
        () => log.info({ component }, "component restarted"),
        (error: unknown) => log.error({ component, err: error }, "component failed to start"),
      );
      exited = run.exited;
    }
  }

  /** Starts the process once. `exited` resolves to a description of its end. */
  #run(onStarted: (name: string, description: string) => void): {
    readonly ready: Promise<Readonly<Record<string, string>>>;
    readonly exited: Promise<string>;
  } {
    const { component, dataDir } = this.#config;
    // In a session of its own, so that Ctrl-C reaches only this process, which then stops its components in order.
    const child = fork(program, ["component", component, "--data-dir", dataDir], {
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#child = child;
    let failure: string | undefined;
    let isUsageError = false;
    const exited = new Promise<string>((resolve) => {
      const end = (reason: string): void => {
        if (this.#child === child) this.#child = undefined;
        resolve(failure ?? reason);
      };
      child.once("error", (error) => end(error.message));
      child.once("exit", (code, signal) => end(signal === null ? `exited with status ${code}` : `killed by ${signal}`));
    });
    const ready = new Promise<Readonly<Record<string, string>>>((resolve, reject) => {
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
    this.#send(child, { type: "start", config: this.#config });
    return { ready, exited };
  }
}
