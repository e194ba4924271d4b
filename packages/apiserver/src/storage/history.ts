import type { Engine, LogRecord, State } from "./engine.ts";
import { decodeLogEntry } from "./log-entry.ts";
import type { StoredObject, StoreEvent } from "./store.ts";
import { DeletedObject, LazyStoredObject } from "./stored-object.ts";

/** Reads the past out of the event log: see `log-entry.ts` for why it is read backwards. */
export interface History {
  /** What happened to keys that begin with `prefix` after `revision`, in order. Yields when it has read another `slice` of entries. */
  eventsAfter(state: State, prefix: string, revision: number, slice: number): Generator<undefined, StoreEvent[], void>;
  /** Notes when a revision was committed. */
  mark(revision: number, timeMs: number): void;
  /** Up to which revision events may be forgotten by now. */
  compactTo(durable: number): number;
}

/** How finely the times of revisions are remembered. */
const markIntervalMs = 1_000;

/** Makes a {@link History} of an engine's log. `read` gives a key as it is in a state. */
export function createHistory(options: {
  readonly engine: Engine;
  readonly read: (state: State, key: string) => StoredObject | undefined;
  readonly historyMs: number;
  readonly historyEvents: number;
  readonly now: () => number;
}): History {
  const { engine, read, historyMs, historyEvents, now } = options;
  // After a restart what is in the log counts as new as its newest entry: it is kept a little longer, never shorter.
  let marks: { readonly revision: number; readonly timeMs: number }[] = [];
  for (const { revision, value } of engine.log(engine.position.compacted, true)) {
    marks.push({ revision, timeMs: decodeLogEntry(value).timeMs });
    break;
  }

  return {
    *eventsAfter(state, prefix, after, slice) {
      const events: StoreEvent[] = [];
      /** The state of a key after the entry that is looked at. */
      const states = new Map<string, StoredObject | undefined>();
      let before: number | undefined;
      for (;;) {
        let count = 0;
        for (const record of state.log(after, true, before)) {
          const event = eventOf(record, prefix, states, (key) => read(state, key));
          if (event !== undefined) events.push(event);
          before = record.revision;
          count += 1;
          if (count === slice) break;
        }
        if (count < slice) return events.reverse();
        yield;
      }
    },
    mark(revision, timeMs) {
      const last = marks.at(-1);
      if (last === undefined || timeMs >= last.timeMs + markIntervalMs) marks.push({ revision, timeMs });
    },
    compactTo(durable) {
      const oldest = now() - historyMs;
      // A mark stands for the revisions up to it: those are as old as it or older.
      let kept = 0;
      let byAge = 0;
      for (const mark of marks) {
        if (mark.timeMs >= oldest) break;
        byAge = mark.revision;
        kept++;
      }
      if (kept > 0) marks = marks.slice(kept - 1);
      return Math.max(byAge, durable - historyEvents);
    },
  };
}

function previousOf(entry: ReturnType<typeof decodeLogEntry>): StoredObject | undefined {
  return entry.previousBytes && new LazyStoredObject(entry.key, entry.previousRevision, entry.previousBytes);
}

/** The event of a log entry; undefined where its key does not begin with `prefix`. `states` are those after the entry, then before it. */
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
    if (object === undefined) throw new Error(`the event log is damaged: no object for ${key} at revision ${revision}`);
    return { type: "put", revision, object, previous };
  }
  if (previous === undefined) throw new Error(`the event log is damaged: nothing deleted at ${key}, revision ${revision}`);
  return { type: "delete", revision, object: new DeletedObject(previous, revision), previous };
}
