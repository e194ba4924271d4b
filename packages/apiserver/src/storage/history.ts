import type { Engine } from "./engine.ts";
import { decodeLogEntry } from "./log-entry.ts";
import type { StoredObject, StoreEvent } from "./store.ts";
import { DeletedObject, LazyStoredObject } from "./stored-object.ts";

/** Reads the past out of the event log: see `log-entry.ts` for why it is read backwards. */
export interface History {
  /** What happened to keys that begin with `prefix` after `revision`, in order. */
  eventsAfter(prefix: string, revision: number): StoreEvent[];
  /** Notes when a revision was committed. */
  mark(revision: number, timeMs: number): void;
  /** Up to which revision events may be forgotten by now. */
  compactTo(durable: number): number;
}

/** How finely the times of revisions are remembered. */
const markIntervalMs = 1_000;

/** Makes a {@link History} of an engine's log. `read` gives the newest state of a key. */
export function createHistory(options: {
  readonly engine: Engine;
  readonly read: (key: string) => StoredObject | undefined;
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
    eventsAfter(prefix, after) {
      const events: StoreEvent[] = [];
      /** The state of a key after the entry that is looked at. */
      const states = new Map<string, StoredObject | undefined>();
      for (const { revision, value } of engine.log(after, true)) {
        const entry = decodeLogEntry(value);
        const { key } = entry;
        if (!key.startsWith(prefix)) continue;
        const state = states.has(key) ? states.get(key) : read(key);
        const previous = previousOf(entry);
        states.set(key, previous);
        if (entry.type === "put") {
          if (state === undefined) throw new Error(`the event log is damaged: no object for ${key} at revision ${revision}`);
          events.push({ type: "put", revision, object: state, previous });
        } else {
          if (previous === undefined)
            throw new Error(`the event log is damaged: nothing deleted at ${key}, revision ${revision}`);
          events.push({ type: "delete", revision, object: new DeletedObject(previous, revision), previous });
        }
      }
      return events.reverse();
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
