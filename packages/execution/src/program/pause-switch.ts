import { ExecutionError } from "../driver.ts";
import type { LaunchedProgram } from "../process/launcher.ts";

/** Pauses and resumes one program, one call after the other. */
export class PauseSwitch {
  readonly #id: string;
  /** The program, if it runs and is not being stopped. */
  readonly #running: () => LaunchedProgram | undefined;
  #isPaused = false;
  #last: Promise<void> = Promise.resolve();

  constructor(id: string, running: () => LaunchedProgram | undefined) {
    this.#id = id;
    this.#running = running;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Reads whether an earlier supervisor has paused the program. */
  async adopt(launched: LaunchedProgram): Promise<void> {
    this.#isPaused = await launched.isPaused();
  }

  /** Pauses or resumes the program. Throws `NotRunning` and `Unsupported`. */
  set(isPaused: boolean): Promise<void> {
    const change = this.#last.then(() => this.#change(isPaused));
    this.#last = change.catch(() => {});
    return change;
  }

  /** Throws `Paused`: a command alongside a paused program would be frozen before it starts. */
  requireRunning(): void {
    if (this.#isPaused) throw new ExecutionError("Paused", `program ${this.#id} is paused; resume it first`);
  }

  /** Lets a program that is to be stopped continue, so that it takes signals. Never rejects. */
  async release(launched: LaunchedProgram): Promise<void> {
    await launched.resume().catch(() => {});
    this.#isPaused = false;
  }

  async #change(isPaused: boolean): Promise<void> {
    const launched = this.#running();
    if (launched === undefined) throw new ExecutionError("NotRunning", `program ${this.#id} is not running`);
    if (!isPaused) {
      await launched.resume();
      this.#isPaused = false;
      return;
    }
    // Before it is frozen, so that no command starts in the meantime.
    const wasPaused = this.#isPaused;
    this.#isPaused = true;
    try {
      await launched.pause();
    } catch (error) {
      this.#isPaused = wasPaused;
      throw error;
    }
    // It was stopped in the meantime.
    if (this.#running() === undefined) await this.release(launched);
  }
}
