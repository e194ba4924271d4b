import type { State, View } from "./engine.ts";
import { decodeLogEntry, encodeRecord } from "./log-entry.ts";
import { compareKeys } from "./recent-writes.ts";

/** A key as it was: undefined where it was not there. `isThere` tells whether it is now. */
interface Former {
  value: Uint8Array | undefined;
  isThere: boolean;
}

/**
 * The objects below `prefix` as they were at `revision`, which must be in the log of `state`. `state` has to be held as long as the view
 * is read. Between slices of `slice` log entries `pause` is awaited.
 */
export async function viewPast(
  state: State,
  prefix: string,
  revision: number,
  { slice, pause }: { readonly slice: number; readonly pause: () => Promise<void> },
): Promise<View> {
  const changed = new Map<string, Former>();
  for (let after = revision, count = slice; count === slice; ) {
    count = 0;
    for (const entry of state.log(after)) {
      const { key, previousRevision, previousBytes } = decodeLogEntry(entry.value);
      after = entry.revision;
      count += 1;
      // Of several changes, what was before the first one counts.
      if (key.startsWith(prefix) && !changed.has(key)) {
        const value = previousBytes && encodeRecord(previousRevision, previousBytes);
        changed.set(key, { value, isThere: state.get(key) !== undefined });
      }
      if (count === slice) break;
    }
    if (count === slice) await pause();
  }
  /** Keys that are there no more, in order. */
  const gone = [...changed]
    .flatMap(([key, { value, isThere }]) => (isThere || value === undefined ? [] : [key]))
    .sort(compareKeys);
  const made = [...changed].flatMap(([key, { value, isThere }]) => (isThere && value === undefined ? [key] : []));

  return {
    *range(start, end) {
      let next = firstFrom(gone, start);
      function* before(limit: string | undefined): Generator<{ readonly key: string; readonly value: Uint8Array }> {
        for (let key = gone[next]; key !== undefined; key = gone[++next]) {
          if (limit !== undefined && compareKeys(key, limit) >= 0) return;
          const value = changed.get(key)?.value;
          if (value !== undefined) yield { key, value };
        }
      }
      for (const entry of state.range(start, end)) {
        yield* before(entry.key);
        const former = changed.get(entry.key);
        if (former === undefined) yield entry;
        else if (former.value !== undefined) yield { key: entry.key, value: former.value };
      }
      yield* before(end);
    },
    count(start, end) {
      const isWithin = (key: string): boolean =>
        compareKeys(key, start) >= 0 && (end === undefined || compareKeys(key, end) < 0);
      return state.count(start, end) - made.filter(isWithin).length + gone.filter(isWithin).length;
    },
  };
}

/** Index of the first of the ordered keys that is `start` or after it. */
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
