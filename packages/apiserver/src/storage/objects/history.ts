import type { Engine, LogRecord, State } from "../database/engine.ts";
import { StorageError } from "../storage-error.ts";
import type { StoredObject, StoreEvent } from "../store.ts";
import { decodeLogEntry, type LogEntry } from "./log-entry.ts";
import { DeletedObject, LazyStoredObject } from "./stored-object.ts";

/** How finely commit times are remembered. */
const markIntervalMs = 1_000;

/** What {@link History} takes. */
export interface HistoryOptions {
  readonly engine: Engine;
  /** Reads a key in a state. */
  readonly read: (state: State, key: string) => StoredObject | undefined;
  /** Events older than this may be dropped. */
  readonly historyMs: number;
  /** At most this many events are kept. */
  readonly historyEvents: number;
  readonly now: () => number;
}

/** Reads past events from the log. `log-entry.ts` explains why it reads backwards. */
export class History {
  readonly #options: HistoryOptions;
  /** Commit times in ascending order: each holds for all revisions up to its own. */
  #marks: { readonly revision: number; readonly timeMs: number }[] = [];

  constructor(options: HistoryOptions) {
    this.#options = options;
    const { engine } = options;
    // After a restart, the whole log counts as young as its newest entry: events are kept a little longer, never shorter.
    for (const { revision, value } of engine.log(engine.position.compacted, true)) {
      this.#marks.push({ revision, timeMs: decodeLogEntry(value).timeMs });
      break;
    }
  }

  /** Events of keys that begin with `prefix` after `after`, in order. Yields after each `slice` of log entries. */
  *eventsAfter(state: State, prefix: string, after: number, slice: number): Generator<undefined, StoreEvent[], void> {
    const events: StoreEvent[] = [];
    /** The state of each key after the log entry at hand. */
    const states = new Map<string, StoredObject | undefined>();
    let before: number | undefined;
    for (;;) {
      let count = 0;
      for (const record of state.log(after, true, before)) {
        const event = eventOf(record, prefix, states, (key) => this.#options.read(state, key));
        if (event !== undefined) events.push(event);
        before = record.revision;
        count += 1;
        if (count === slice) break;
      }
      if (count < slice) return events.reverse();
      yield;
    }
  }

  /** Records when a revision was committed. */
  mark(revision: number, timeMs: number): void {
    const last = this.#marks.at(-1);
    if (last === undefined || timeMs >= last.timeMs + markIntervalMs) this.#marks.push({ revision, timeMs });
  }

  /** The newest revision whose event may be dropped now. */
  compactTo(durable: number): number {
    const { now, historyMs, historyEvents } = this.#options;
    const oldest = now() - historyMs;
    let expired = 0;
    let byAge = 0;
    for (const mark of this.#marks) {
      if (mark.timeMs >= oldest) break;
      byAge = mark.revision;
      expired++;
    }
    if (expired > 0) this.#marks = this.#marks.slice(expired - 1);
    return Math.max(byAge, durable - historyEvents);
  }
}

function previousOf(entry: LogEntry): StoredObject | undefined {
  return entry.previousBytes && new LazyStoredObject(entry.key, entry.previousRevision, entry.previousBytes);
}

/** The event of a log entry; undefined if its key does not begin with `prefix`. Moves `states` from after the entry to before it. */
function eventOf(
  { revision, value }: LogRecord,
  prefix: string,
  states: Map<string, StoredObject | undefined>,
  read: (key: string) => StoredObject | undefined,
): StoreEvent | undefined {
  const entry = decodeLogEntry(value);
  const { key } = entry;
  if (!key.startsWith(prefix)) return undefined;
  const object = states.has(key) ? states.get(key) : read(key);
  const previous = previousOf(entry);
  states.set(key, previous);
  if (entry.type === "put") {
    if (object === undefined) throw damagedLog(`no object for ${key} at revision ${revision}`);
    return { type: "put", revision, object, previous };
  }
  if (previous === undefined) throw damagedLog(`nothing was deleted at ${key}, revision ${revision}`);
  return { type: "delete", revision, object: new DeletedObject(previous, revision), previous };
}

function damagedLog(why: string): StorageError {
  return new StorageError("Damaged", `the event log is damaged: ${why}`);
}
