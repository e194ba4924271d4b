import { setImmediate as nextTurn } from "node:timers/promises";
import type { StoreEvent, StoreWatch, WatchListener } from "../store.ts";

/** Events delivered per turn of the event loop: the listener may parse each of them. */
const eventSlice = 250;

/** What {@link LogReplay} takes. */
export interface LogReplayOptions {
  /** Reads the events of the log and yields between slices. */
  readonly reading: Generator<undefined, readonly StoreEvent[], void>;
  /** Called once, when reading has ended. */
  readonly release: () => void;
  /** Subscribes to events that are committed from now on. */
  readonly subscribe: (live: WatchListener) => { close(): void };
  readonly listener: WatchListener;
  /** Called if the log cannot be read, after the watch has closed. */
  readonly onError: (error: unknown) => void;
  /** Whether the store is closed and can no longer be read. */
  readonly isStoreClosed: () => boolean;
}

/** A watch from far back: it replays the log one slice per turn and buffers live events until it has caught up. */
export class LogReplay implements StoreWatch {
  readonly #options: LogReplayOptions;
  readonly #live: { close(): void };
  #buffered: StoreEvent[] | undefined = [];
  #isOpen = true;

  constructor(options: LogReplayOptions) {
    this.#options = options;
    this.#live = options.subscribe((events) => {
      if (this.#buffered === undefined) options.listener(events);
      else for (const event of events) this.#buffered.push(event);
    });
    this.#replay()
      .catch((error: unknown) => {
        this.close();
        options.onError(error);
      })
      .finally(options.release);
  }

  get isReplaying(): boolean {
    return this.#buffered !== undefined;
  }

  close(): void {
    this.#isOpen = false;
    this.#live.close();
  }

  async #replay(): Promise<void> {
    const { reading, listener, isStoreClosed } = this.#options;
    let step = reading.next();
    for (; step.done !== true; step = reading.next()) {
      await nextTurn();
      if (!this.#isOpen || isStoreClosed()) return;
    }
    const events = step.value;
    for (let start = 0; start < events.length; start += eventSlice) {
      listener(events.slice(start, start + eventSlice), true);
      await nextTurn();
      if (!this.#isOpen) return;
    }
    const buffered = this.#buffered ?? [];
    this.#buffered = undefined;
    if (buffered.length > 0) listener(buffered);
  }
}
