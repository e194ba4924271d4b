import { ExecutionError, type Program, type RunningLimits } from "../../driver.ts";
import type { LaunchedProgram } from "../../process/launcher.ts";
import type { ProgramStateFile } from "../files/program-state-file.ts";

/** The limits of one program, and their changes while it runs, one after the other. */
export class ProgramLimits {
  readonly #id: string;
  readonly #file: ProgramStateFile;
  readonly #running: () => LaunchedProgram | undefined;
  #current: Program["limits"] = { applied: {} };
  #last: Promise<void> = Promise.resolve();

  /** `running` returns the program if it runs. */
  constructor(id: string, file: ProgramStateFile, running: () => LaunchedProgram | undefined) {
    this.#id = id;
    this.#file = file;
    this.#running = running;
  }

  get current(): Program["limits"] {
    return this.#current;
  }

  /** Reads the limits of a program that runs now, with the changes that an earlier supervisor made. */
  begin({ limits }: LaunchedProgram): void {
    const { record } = this.#file;
    const changed = record.kind === "running" ? record.limits : undefined;
    this.#current = { ...limits, applied: { ...limits.applied, ...changed } };
  }

  /** See `Program.setLimits`. */
  set(limits: RunningLimits): Promise<void> {
    const change = this.#last.then(() => this.#change(limits));
    this.#last = change.catch(() => {});
    return change;
  }

  async #change(limits: RunningLimits): Promise<void> {
    const launched = this.#running();
    if (launched === undefined) throw new ExecutionError("NotRunning", `program ${this.#id} is not running`);
    await launched.setLimits(limits);
    this.#current = { ...this.#current, applied: { ...this.#current.applied, ...limits } };
    const { record } = this.#file;
    if (record.kind !== "running") return;
    // The limits hold even if they cannot be recorded; then a later supervisor shows those of the start.
    await this.#file.save({ ...record, limits: { ...record.limits, ...limits } }, { isDurable: false }).catch(() => {});
  }
}
