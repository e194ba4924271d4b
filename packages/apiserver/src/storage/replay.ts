import { setImmediate as nextTurn } from "node:timers/promises";
import type { StoreEvent, StoreWatch, WatchListener } from "./store.ts";

/** How many events a watcher is told of in one turn of the event loop: it may parse each. */
const eventSlice = 250;

/** What {@link replayOverTurns} takes. */
export interface ReplayOptions {
  /** Reads the events of the log and yields when others should have their turn. */
  readonly reading: Generator<undefined, readonly StoreEvent[], void>;
  /** Called once, when nothing more is read. */
  readonly release: () => void;
  /** Begins to tell of what is committed from now on. */
  readonly subscribe: (live: WatchListener) => { close(): void };
  readonly listener: WatchListener;
  /** The log could not be read; the watch is closed by then. */
  readonly onError: (error: unknown) => void;
  /** Whether the store is closed: then nothing more can be read. */
  readonly isEnded: () => boolean;
}

/** A watch from far back: it replays a slice in each turn, and what is committed meanwhile waits until that is done. */
export function replayOverTurns({ reading, release, subscribe, listener, onError, isEnded }: ReplayOptions): StoreWatch {
  let waiting: StoreEvent[] | undefined = [];
  let isOpen = true;
  const live = subscribe((events) => {
    if (waiting === undefined) listener(events);
    else for (const event of events) waiting.push(event);
  });
  const close = (): void => {
    isOpen = false;
    live.close();
  };
  const run = async (): Promise<void> => {
    let step = reading.next();
    for (; step.done !== true; step = reading.next()) {
      await nextTurn();
      if (!isOpen || isEnded()) return;
    }
    const events = step.value;
    for (let start = 0; start < events.length; start += eventSlice) {
      listener(events.slice(start, start + eventSlice), true);
      await nextTurn();
      if (!isOpen) return;
    }
    const waited = waiting ?? [];
    waiting = undefined;
    if (waited.length > 0) listener(waited);
  };
  run()
    .catch((error: unknown) => {
      close();
      onError(error);
    })
    .finally(release);
  return {
    get isReplaying() {
      return waiting !== undefined;
    },
    close,
  };
}
