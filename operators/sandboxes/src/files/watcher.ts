import { type ChildProcess, spawn } from "node:child_process";
import { createDeferred } from "@keelson/api-machinery/deferred";
import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";

/** Status of a shell or setpriv that has not found its program. */
export const notFoundStatus = 127;

/** Maximum time in which a sandbox ends whose processes were killed. */
const maxEndMs = 5_000;

/** The process of one watch. It ends with its sandbox. */
export class Watcher {
  readonly #process: ChildProcess;
  readonly #program: Pick<Program, "onExit">;
  readonly #clock: Clock;
  readonly #closed = createDeferred<number | null>();
  #isStopped = false;
  #hasProgramEnded = false;

  /** Starts the command with descriptor 3 open on the sandbox's root. */
  constructor(program: Pick<Program, "onExit">, clock: Clock, [file, ...args]: readonly [string, ...string[]], rootFd: number) {
    this.#program = program;
    this.#clock = clock;
    this.#process = spawn(file, args, {
      stdio: ["pipe", "pipe", "ignore", rootFd],
      env: { PATH: process.env.PATH },
      cwd: "/",
    });
    this.#process.once("error", () => this.#closed.resolve(notFoundStatus));
    this.#process.once("close", (code) => this.#closed.resolve(code));
    // Its descriptors would keep the sandbox's file systems.
    const forget = program.onExit(() => {
      this.#hasProgramEnded = true;
      this.#process.kill("SIGKILL");
    });
    void this.#closed.promise.then(forget);
  }

  get output(): AsyncIterable<Buffer> {
    return this.#process.stdout as AsyncIterable<Buffer>;
  }

  /** Its exit status, or null if a signal ended it. */
  get closed(): Promise<number | null> {
    return this.#closed.promise;
  }

  stop(): void {
    this.#isStopped = true;
    this.#process.kill("SIGKILL");
  }

  /** Once its output has ended: whether it was stopped, its directory was removed, or its sandbox has ended. */
  async isExpectedEnd(): Promise<boolean> {
    return (await this.#closed.promise) === 0 || this.#isStopped || (await this.hasEndedWithProgram());
  }

  /**
   * Once it has ended by itself: whether its sandbox has ended. The processes of a sandbox are killed before it ends is known, but a watch that
   * was killed alone, because the sandbox has no memory left, has failed.
   */
  async hasEndedWithProgram(): Promise<boolean> {
    await this.#closed.promise;
    if (this.#hasProgramEnded || this.#process.signalCode === null) return this.#hasProgramEnded;
    const waited = createDeferred<boolean>();
    const timer = this.#clock.setTimer(maxEndMs, () => waited.resolve(false), { background: true });
    const forget = this.#program.onExit(() => waited.resolve(true));
    try {
      return await waited.promise;
    } finally {
      timer.cancel();
      forget();
    }
  }
}
