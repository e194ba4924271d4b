import type { Engine, LogRecord, State } from "../database/engine.ts";
import { StorageError } from "../storage-error.ts";
import type { StoredObject, StoreEvent } from "../store.ts";
import { decodeLogEntry, type LogEntry } from "./log-entry.ts";
import { DeletedObject, LazyStoredObject } from "./stored-object.ts";

/** How finely commit times are remembered. */
const markIntervalMs = 1_000;
/** How finely the bytes of events are remembered, as a share of the limit. */
const markShare = 1 / 64;

/** A point in the log. */
interface Mark {
  readonly revision: number;
  /** No earlier than the commits of all revisions up to this one. */
  readonly timeMs: number;
  /** Bytes of the events that were committed up to this revision, since the store was opened. */
  readonly bytes: number;
}

/** What {@link History} takes. */
export interface HistoryOptions {
  readonly engine: Engine;
  /** Reads a key in a state. */
  readonly read: (state: State, key: string) => StoredObject | undefined;
  /** Events older than this may be dropped. */
  readonly historyMs: number;
  /** At most this many events are kept. */
  readonly historyEvents: number;
  /** Events with at most this many bytes are kept, not counting those of a former process. */
  readonly historyBytes: number;
  readonly now: () => number;
}

/** Reads past events from the log. `log-entry.ts` explains why it reads backwards. */
export class History {
  readonly #options: HistoryOptions;
  /** In ascending order. */
  #marks: Mark[] = [];
  /** Bytes of all events since the store was opened. */
  #bytes = 0;

  constructor(options: HistoryOptions) {
    this.#options = options;
    const { engine } = options;
    // After a restart, the whole log counts as young as its newest entry: events are kept a little longer, never shorter.
    for (const { revision, value } of engine.log(engine.position.compacted, true)) {
      this.#marks.push({ revision, timeMs: decodeLogEntry(value).timeMs, bytes: 0 });
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

  /** Records that events up to `revision` were committed, the last ones with this many bytes. */
  mark(revision: number, timeMs: number, bytes: number): void {
    this.#bytes += bytes;
    const last = this.#marks.at(-1);
    const isDue =
      last === undefined ||
      timeMs >= last.timeMs + markIntervalMs ||
      this.#bytes - last.bytes >= this.#options.historyBytes * markShare;
    if (isDue) this.#marks.push({ revision, timeMs, bytes: this.#bytes });
  }

  /** The newest revision whose event may be dropped now. */
  compactTo(durable: number): number {
    const { now, historyMs, historyEvents, historyBytes } = this.#options;
    const oldest = now() - historyMs;
    let dropped = 0;
    let upTo = 0;
    for (const mark of this.#marks) {
      const isTooMuch = this.#bytes - (this.#marks[dropped - 1]?.bytes ?? 0) > historyBytes;
      if (mark.timeMs >= oldest && !isTooMuch) break;
      upTo = mark.revision;
      dropped++;
    }
    if (dropped > 0) this.#marks = this.#marks.slice(dropped - 1);
    return Math.max(upTo, durable - historyEvents);
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
