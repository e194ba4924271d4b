import { type ChildProcess, spawn } from "node:child_process";
import type { Clock } from "@keelson/api-machinery/time";
import type { Outcome, StopOptions } from "./engine.ts";

/** Maximum length of the output that an error message quotes. */
const maxTailLength = 1_000;

/** The process of a server program. It is started once. */
export class ServerProcess {
  readonly #program: string;
  readonly #clock: Clock;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();
  #tail = "";
  #failure: string | undefined;
  #isStopping = false;
  #reportEnd: (message: string) => void = () => undefined;

  /** Resolves with a message when the program exits without {@link stop}. */
  readonly ended = new Promise<string>((resolve) => {
    this.#reportEnd = resolve;
  });

  constructor(program: string, clock: Clock) {
    this.#program = program;
    this.#clock = clock;
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
    const child = spawn(this.#program, args, { stdio: ["ignore", "pipe", "pipe"], cwd });
    this.#child = child;
    this.#forward(child.stdout, process.stdout);
    this.#forward(child.stderr, process.stderr);
    this.#exited = new Promise((resolve) => {
      child.once("error", (error) => {
        this.#failure = error.message;
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

  kill(): void {
    this.#child?.kill("SIGKILL");
  }

  /** Stops the program with SIGTERM, and with `force` by SIGKILL after the timeout. */
  async stop({ timeoutMs, force }: StopOptions): Promise<Outcome> {
    this.#isStopping = true;
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return { ok: true };
    child.kill("SIGTERM");
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
    child.kill("SIGKILL");
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
