import { keysPerPart, type KeyValue, type State, type View } from "../database/engine.ts";
import { compareKeys, isKeyWithin } from "../database/key-order.ts";
import { decodeLogEntry, encodeRecord } from "./log-entry.ts";

/** A key that has changed since: its value then, undefined if it did not exist. */
interface FormerValue {
  readonly value: Uint8Array | undefined;
  /** Whether the key exists now. */
  readonly existsNow: boolean;
}

/** How {@link viewPast} yields: it awaits `pause` after each `slice` of log entries. */
interface PastOptions {
  readonly slice: number;
  readonly pause: () => Promise<void>;
}

/**
 * The objects below `prefix` as they were at `revision`, which the log of `state` must reach. The caller keeps `state` pinned while it
 * reads the view.
 */
export async function viewPast(state: State, prefix: string, revision: number, options: PastOptions): Promise<View> {
  return new HistoricalView(state, await changesSince(state, prefix, revision, options));
}

async function changesSince(
  state: State,
  prefix: string,
  revision: number,
  { slice, pause }: PastOptions,
): Promise<ReadonlyMap<string, FormerValue>> {
  const changed = new Map<string, FormerValue>();
  for (let after = revision, count = slice; count === slice; ) {
    count = 0;
    for (const entry of state.log(after)) {
      const { key, previousRevision, previousBytes } = decodeLogEntry(entry.value);
      after = entry.revision;
      count += 1;
      // Of several changes to a key, the first one holds the value at `revision`.
      if (key.startsWith(prefix) && !changed.has(key)) {
        const value = previousBytes && encodeRecord(previousRevision, previousBytes);
        changed.set(key, { value, existsNow: state.has(key) });
      }
      if (count === slice) break;
    }
    if (count === slice) await pause();
  }
  return changed;
}

/** A state with some of its keys replaced by former values. */
class HistoricalView implements View {
  readonly #state: State;
  readonly #changed: ReadonlyMap<string, FormerValue>;
  /** Keys deleted since, in order. */
  readonly #deleted: readonly string[];
  /** Keys created since. */
  readonly #created: readonly string[];

  constructor(state: State, changed: ReadonlyMap<string, FormerValue>) {
    this.#state = state;
    this.#changed = changed;
    const entries = [...changed];
    this.#deleted = entries
      .flatMap(([key, { value, existsNow }]) => (existsNow || value === undefined ? [] : [key]))
      .sort(compareKeys);
    this.#created = entries.flatMap(([key, { value, existsNow }]) => (existsNow && value === undefined ? [key] : []));
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#replaced(this.#state.range(start, end), start, end);
  }

  borrow(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#replaced(this.#state.borrow(start, end), start, end);
  }

  *#replaced(current: Iterable<KeyValue>, start: string, end: string | undefined): Generator<KeyValue> {
    const deleted = this.#deletedFrom(start);
    for (const entry of current) {
      yield* deleted.before(entry.key);
      const former = this.#changed.get(entry.key);
      if (former === undefined) yield entry;
      else if (former.value !== undefined) yield { key: entry.key, value: former.value };
    }
    yield* deleted.before(end);
  }

  *count(start: string, end: string | undefined): Generator<number> {
    yield* this.#state.count(start, end);
    for (const part of countWithin(this.#created, start, end)) yield -part;
    yield* countWithin(this.#deleted, start, end);
  }

  #deletedFrom(start: string): { before(limit: string | undefined): Generator<KeyValue> } {
    const keys = this.#deleted;
    const changed = this.#changed;
    let next = firstFrom(keys, start);
    return {
      *before(limit) {
        for (let key = keys[next]; key !== undefined; key = keys[++next]) {
          if (limit !== undefined && compareKeys(key, limit) >= 0) return;
          const value = changed.get(key)?.value;
          if (value !== undefined) yield { key, value };
        }
      },
    };
  }
}

/** Counts the keys in a range, in parts. */
function* countWithin(keys: readonly string[], start: string, end: string | undefined): Generator<number> {
  for (let from = 0; from < keys.length; from += keysPerPart) {
    yield keys.slice(from, from + keysPerPart).filter((key) => isKeyWithin(key, start, end)).length;
  }
}

/** The index of the first of the ordered keys that is not before `start`. */
function firstFrom(keys: readonly string[], start: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareKeys(keys[middle] ?? "", start) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
