import type { Clock } from "@keelson/api-machinery/time";

/** Time for the shutdown of the server, the exchange of its data and its start, in milliseconds. */
const maxReplacementMs = 60_000;

/** Time for the shutdown of a server. */
const stopTimeoutMs = 25_000;

/** A server whose data is exchanged. */
interface Exchanged {
  readonly files: { readonly data: { replace(by: string): Promise<void> } };
  stop(timeoutMs: number): Promise<boolean>;
}

/** The replacement of a primary's data. The server remains the primary of its Group in the meantime, but not without limit. */
export class Replacement {
  readonly #clock: Clock;
  #deadline: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the data is being replaced. */
  get isUnderWay(): boolean {
    return this.#deadline !== undefined;
  }

  /** Whether the data is being replaced, and the silence of the server is not a failure yet. */
  get isOnTime(): boolean {
    return this.#deadline !== undefined && this.#clock.monotonic() < this.#deadline;
  }

  /** Stops the primary and exchanges its data. `resume` makes it a primary again, with the old data if the directories could not be exchanged. */
  exchange(server: Exchanged, folder: string, resume: () => Promise<void>): Promise<void> {
    return this.run(async () => {
      try {
        await server.stop(stopTimeoutMs);
        await server.files.data.replace(folder);
      } finally {
        await resume();
      }
    });
  }

  /** Replaces the data by `act`. The replacement ends when `act` does, whether it fails or not. */
  async run<T>(act: () => Promise<T>): Promise<T> {
    this.#deadline = this.#clock.monotonic() + maxReplacementMs;
    try {
      return await act();
    } finally {
      this.#deadline = undefined;
    }
  }
}
