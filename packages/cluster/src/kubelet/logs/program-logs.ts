import type { Clock } from "@keelson/api-machinery/time";
import type { Program } from "@keelson/execution";
import { LogClock } from "./log-clock.ts";
import type { LogTimes } from "./line-filter.ts";

/** The log clocks of a Pod's programs. */
export class ProgramLogs {
  readonly #clock: Clock;
  readonly #clocks = new Map<string, LogClock>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The times at which the lines of a program's log were written. Recording starts with the first call. */
  times(program: Program): LogTimes {
    let times = this.#clocks.get(program.id);
    if (times === undefined) {
      const { state } = program;
      const startedAt = state.kind === "starting" ? undefined : state.startedAt;
      times = new LogClock(program.logs.stdout, startedAt ?? this.#clock.now(), this.#clock);
      this.#clocks.set(program.id, times);
    }
    return times;
  }

  /** Stops recording the log of a program that is about to be removed. */
  forget(program: Program | undefined): void {
    if (program === undefined) return;
    this.#clocks.get(program.id)?.close();
    this.#clocks.delete(program.id);
  }

  close(): void {
    for (const times of this.#clocks.values()) times.close();
    this.#clocks.clear();
  }
}
