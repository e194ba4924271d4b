import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "@keelson/api-machinery/time";
import type { Outcome, StopOptions } from "../engine.ts";
import { Guard } from "./guard.ts";
import { programEnvironment } from "./program-environment.ts";

/** Maximum length of the output that an error message quotes. */
const maxTailLength = 1_000;

/** Options of {@link ServerProcess}. */
export interface ServerProcessOptions {
  /** The signal that shuts the program down. Default `SIGTERM`. */
  readonly stopSignal?: NodeJS.Signals;
  /** The user of the program; by default that of the agent. Only root can change it. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** Kills the children of the program too, for programs whose children serve clients. */
  readonly killsChildren?: boolean;
}

/** The process of a server program. It is started once. */
export class ServerProcess {
  readonly #program: string;
  readonly #clock: Clock;
  readonly #options: ServerProcessOptions;
  #child: ChildProcess | undefined;
  #guard: Guard | undefined;
  #exited: Promise<void> = Promise.resolve();
  #tail = "";
  #failure: string | undefined;
  #isStopping = false;
  #reportEnd: (message: string) => void = () => undefined;

  /** Resolves with a message when the program exits without {@link stop}. */
  readonly ended = new Promise<string>((resolve) => {
    this.#reportEnd = resolve;
  });

  #reportExit: () => void = () => undefined;

  /** Resolves when the program itself has exited. Its children may still run, and hold its output open. */
  readonly exited = new Promise<void>((resolve) => {
    this.#reportExit = resolve;
  });

  constructor(program: string, clock: Clock, options: ServerProcessOptions = {}) {
    this.#program = program;
    this.#clock = clock;
    this.#options = options;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Why the program exited or could not be started, with the end of its output. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** Starts the program. Returns its pid; undefined if it could not be started, see {@link failure}. */
  start(args: readonly string[], cwd: string): number | undefined {
    const child = spawn(this.#program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      cwd,
      env: programEnvironment(),
      ...this.#options.user,
    });
    this.#child = child;
    this.#forward(child.stdout, process.stdout);
    this.#forward(child.stderr, process.stderr);
    child.once("exit", () => this.#reportExit());
    this.#exited = new Promise((resolve) => {
      child.once("error", (error) => {
        this.#failure = error.message;
        if (child.pid === undefined) this.#reportExit();
        resolve();
      });
      // After its output has been read.
      child.once("close", (code, signal) => {
        const output = this.#tail.trim();
        this.#failure ??= `${this.#program} exited with ${signal ?? `code ${code}`}${output === "" ? "" : `: ${output}`}`;
        resolve();
      });
    });
    void this.#exited.then(() => {
      if (!this.#isStopping) this.#reportEnd(this.#failure ?? "exited");
    });
    return child.pid;
  }

  /**
   * Kills the program after `timeoutMs` unless this is called again. Its own process does that, so that it also happens if this
   * one is frozen or dies. Undefined ends the timeout.
   */
  guard(timeoutMs: number | undefined): void {
    const { pid } = this.#child ?? {};
    if (pid === undefined || this.#isStopping || this.#failure !== undefined) return;
    this.#guard ??= this.#startGuard(pid);
    this.#guard.set(timeoutMs);
  }

  #startGuard(pid: number): Guard {
    const { stopSignal = "SIGTERM", killsChildren = false } = this.#options;
    const guard = new Guard({ pid, name: this.#program, stopSignal, killsChildren, clock: this.#clock });
    void this.#exited.then(() => guard.end());
    return guard;
  }

  /** Kills the program, and its children if {@link ServerProcessOptions.killsChildren}. */
  kill(): void {
    const { pid } = this.#child ?? {};
    if (this.#options.killsChildren === true && pid !== undefined && this.#failure === undefined) {
      // It must not start more of them in the meantime.
      this.#child?.kill("SIGSTOP");
      for (const child of childrenOf(pid)) killIfRunning(child);
    }
    this.#child?.kill("SIGKILL");
  }

  /** Stops the program with SIGTERM, and with `force` by SIGKILL after the timeout. */
  async stop({ timeoutMs, force }: StopOptions): Promise<Outcome> {
    this.#isStopping = true;
    // It must not interrupt a program that saves its data.
    this.#guard?.end();
    this.#guard = undefined;
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return { ok: true };
    child.kill(this.#options.stopSignal ?? "SIGTERM");
    let onTimeout = (): void => undefined;
    const timedOut = new Promise<false>((resolve) => {
      onTimeout = () => resolve(false);
    });
    const timer = this.#clock.setTimer(timeoutMs, () => onTimeout());
    const hasExited = await Promise.race([this.#exited.then(() => true), timedOut]);
    // A pending timer would keep the agent alive after its program.
    timer.cancel();
    if (hasExited) return { ok: true };
    if (!force) return { ok: false, error: `${this.#program} did not exit within ${timeoutMs} ms` };
    this.kill();
    await this.#exited;
    return { ok: true };
  }

  /** Forwards output to the log of the Pod, and keeps its end. */
  #forward(from: NodeJS.ReadableStream, to: NodeJS.WritableStream): void {
    from.on("data", (chunk: Buffer) => {
      to.write(chunk);
      this.#tail = (this.#tail + chunk.toString("utf8")).slice(-maxTailLength);
    });
  }
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended in the meantime.
  }
}

/** Ids of the running children of a process. */
function childrenOf(pid: number): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((each) => parentOf(each) === pid);
}

function parentOf(pid: number): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    // It has ended in the meantime.
    return undefined;
  }
}
