import type { Batch, LogRecord, State, View } from "./engine.ts";

/**
 * The commits that the database does not have yet, in order, as one layer over what it has. Lookups are by key; a range merges the two.
 */
export class RecentWrites {
  readonly #batches: Batch[] = [];
  /** By key: the newest value and the number of the batch that wrote it. */
  readonly #latest = new Map<string, { readonly value: Uint8Array | undefined; readonly batch: Batch }>();
  #bytes = 0;

  /** Bytes of keys and values of all that is here. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#batches.length === 0;
  }

  add(batch: Batch): void {
    this.#batches.push(batch);
    this.#bytes += bytesOf(batch);
    for (const { key, value } of batch.objects) this.#latest.set(key, { value, batch });
  }

  /** The oldest commits as one of about `work` writes, and how many of them that are; at least one. Undefined: there is nothing. */
  oldest(work: number): { readonly batch: Batch; readonly count: number } | undefined {
    const [first] = this.#batches;
    if (first === undefined) return undefined;
    const taken: Batch[] = [];
    let sum = 0;
    for (const batch of this.#batches) {
      sum += batch.objects.length + batch.log.length + Math.max(batch.position.compacted - batch.dropAfter, 0);
      if (taken.length > 0 && sum > work) break;
      taken.push(batch);
    }
    const objects = new Map(taken.flatMap((batch) => batch.objects.map((object) => [object.key, object] as const)));
    return {
      count: taken.length,
      batch: {
        objects: [...objects.values()],
        log: taken.flatMap(({ log }) => log),
        position: (taken.at(-1) ?? first).position,
        dropAfter: first.dropAfter,
      },
    };
  }

  /** Forgets the `count` oldest commits: the database has them. */
  drop(count: number): void {
    for (const batch of this.#batches.splice(0, count)) {
      this.#bytes -= bytesOf(batch);
      for (const { key } of batch.objects) if (this.#latest.get(key)?.batch === batch) this.#latest.delete(key);
    }
  }

  /** The same writes, whatever becomes of these. */
  copy(): RecentWrites {
    const copy = new RecentWrites();
    for (const batch of this.#batches) copy.add(batch);
    return copy;
  }

  /** `below` with these writes over it, as they are when it is read. */
  over(below: State): State {
    const latest = this.#latest;
    return {
      get(key) {
        const written = latest.get(key);
        return written === undefined ? below.get(key) : written.value;
      },
      ...overlay(latest, below),
      log: (after, newestFirst = false, before = Number.POSITIVE_INFINITY) =>
        newestFirst ? this.#newestLog(below, after, before) : this.#log(below, after),
    };
  }

  *#log(below: State, after: number): Generator<LogRecord> {
    let last = after;
    for (const entry of below.log(after)) {
      last = entry.revision;
      yield entry;
    }
    // Right after they went into the database, what is here is there as well.
    for (const { log } of this.#batches) for (const entry of log) if (entry.revision > last) yield entry;
  }

  *#newestLog(below: State, after: number, before: number): Generator<LogRecord> {
    let last = before;
    for (const { log } of this.#batches.toReversed()) {
      for (const entry of log.toReversed()) {
        if (entry.revision >= last || entry.revision <= after) continue;
        last = entry.revision;
        yield entry;
      }
    }
    yield* below.log(after, true, last === Number.POSITIVE_INFINITY ? undefined : last);
  }
}

/** Objects by key, those that were written last: undefined where they were removed. */
type Latest = ReadonlyMap<string, { readonly value: Uint8Array | undefined }>;

function overlay(latest: Latest, below: View): View {
  const within = (start: string, end: string | undefined): string[] => {
    const keys: string[] = [];
    for (const key of latest.keys()) {
      if (compareKeys(key, start) >= 0 && (end === undefined || compareKeys(key, end) < 0)) keys.push(key);
    }
    return keys.sort(compareKeys);
  };
  return {
    *range(start, end) {
      const keys = within(start, end);
      let next = 0;
      /** What is to come before `limit`. */
      function* before(limit: string | undefined): Generator<{ readonly key: string; readonly value: Uint8Array }> {
        for (let key = keys[next]; key !== undefined; key = keys[++next]) {
          if (limit !== undefined && compareKeys(key, limit) >= 0) return;
          const value = latest.get(key)?.value;
          if (value !== undefined) yield { key, value };
        }
      }
      for (const entry of below.range(start, end)) {
        yield* before(entry.key);
        if (keys[next] !== entry.key) {
          yield entry;
          continue;
        }
        next += 1;
        const value = latest.get(entry.key)?.value;
        if (value !== undefined) yield { key: entry.key, value };
      }
      yield* before(undefined);
    },
    count(start, end) {
      let count = below.count(start, end);
      for (const key of within(start, end)) {
        count -= below.count(key, `${key}\u0000`);
        if (latest.get(key)?.value !== undefined) count += 1;
      }
      return count;
    },
  };
}

/** The order of keys in a database: by code point, which is that of their UTF-8. `<` orders by UTF-16. */
export function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index++) {
    const difference = rank(a.charCodeAt(index)) - rank(b.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Halves of characters beyond U+FFFF after all others. */
function rank(unit: number): number {
  return unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

function bytesOf({ objects, log }: Batch): number {
  let bytes = 0;
  for (const { key, value } of objects) bytes += key.length + (value?.length ?? 0);
  for (const { value } of log) bytes += value.length;
  return bytes;
}
