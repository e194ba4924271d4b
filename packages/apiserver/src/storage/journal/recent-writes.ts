import type { Batch, KeyValue, LogRecord, State } from "../database/engine.ts";
import { compareKeys, isKeyWithin, keyAfter } from "../database/key-order.ts";

/** The newest value of a key and the batch that wrote it. */
interface LatestWrite {
  readonly value: Uint8Array | undefined;
  readonly batch: Batch;
}

/** Commits that the database does not have yet, in order, as one layer above it. Lookups are by key; a range merges the two. */
export class RecentWrites {
  readonly #batches: Batch[] = [];
  readonly #latest = new Map<string, LatestWrite>();
  #bytes = 0;

  /** Bytes of all keys and values. */
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

  /** The oldest commits merged into one of about `maxWrites` writes, and their number, at least one. Undefined if there are none. */
  oldest(maxWrites: number): { readonly batch: Batch; readonly count: number } | undefined {
    const [first] = this.#batches;
    if (first === undefined) return undefined;
    const merged: Batch[] = [];
    let writes = 0;
    for (const batch of this.#batches) {
      writes += batch.objects.length + batch.log.length + Math.max(batch.position.compacted - batch.dropAfter, 0);
      if (merged.length > 0 && writes > maxWrites) break;
      merged.push(batch);
    }
    const objects = new Map(merged.flatMap((batch) => batch.objects.map((object) => [object.key, object] as const)));
    return {
      count: merged.length,
      batch: {
        objects: [...objects.values()],
        log: merged.flatMap(({ log }) => log),
        position: (merged.at(-1) ?? first).position,
        dropAfter: first.dropAfter,
      },
    };
  }

  /** Removes the `count` oldest commits, which the database has now. */
  drop(count: number): void {
    for (const batch of this.#batches.splice(0, count)) {
      this.#bytes -= bytesOf(batch);
      for (const { key } of batch.objects) if (this.#latest.get(key)?.batch === batch) this.#latest.delete(key);
    }
  }

  /** An independent copy. */
  copy(): RecentWrites {
    const copy = new RecentWrites();
    for (const batch of this.#batches) copy.add(batch);
    return copy;
  }

  /** `below` with these writes on top, always as they currently are. */
  over(below: State): State {
    return new LayeredState(below, this.#batches, this.#latest);
  }
}

/** A state with recent writes on top. */
class LayeredState implements State {
  readonly #below: State;
  readonly #batches: readonly Batch[];
  readonly #latest: ReadonlyMap<string, LatestWrite>;

  constructor(below: State, batches: readonly Batch[], latest: ReadonlyMap<string, LatestWrite>) {
    this.#below = below;
    this.#batches = batches;
    this.#latest = latest;
  }

  get(key: string): Uint8Array | undefined {
    const written = this.#latest.get(key);
    return written === undefined ? this.#below.get(key) : written.value;
  }

  *range(start: string, end: string | undefined): Generator<KeyValue> {
    const keys = this.#keysWithin(start, end);
    const latest = this.#latest;
    let next = 0;
    /** Recent writes before `limit`. */
    function* before(limit: string | undefined): Generator<KeyValue> {
      for (let key = keys[next]; key !== undefined; key = keys[++next]) {
        if (limit !== undefined && compareKeys(key, limit) >= 0) return;
        const value = latest.get(key)?.value;
        if (value !== undefined) yield { key, value };
      }
    }
    for (const entry of this.#below.range(start, end)) {
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
  }

  count(start: string, end: string | undefined): number {
    let count = this.#below.count(start, end);
    for (const key of this.#keysWithin(start, end)) {
      count -= this.#below.count(key, keyAfter(key));
      if (this.#latest.get(key)?.value !== undefined) count += 1;
    }
    return count;
  }

  log(after: number, newestFirst = false, before = Number.POSITIVE_INFINITY): Iterable<LogRecord> {
    return newestFirst ? this.#newestLog(after, before) : this.#log(after);
  }

  *#log(after: number): Generator<LogRecord> {
    let last = after;
    for (const entry of this.#below.log(after)) {
      last = entry.revision;
      yield entry;
    }
    // Just after a flush, the database has these entries as well.
    for (const { log } of this.#batches) for (const entry of log) if (entry.revision > last) yield entry;
  }

  *#newestLog(after: number, before: number): Generator<LogRecord> {
    let last = before;
    for (const { log } of this.#batches.toReversed()) {
      for (const entry of log.toReversed()) {
        if (entry.revision >= last || entry.revision <= after) continue;
        last = entry.revision;
        yield entry;
      }
    }
    yield* this.#below.log(after, true, last === Number.POSITIVE_INFINITY ? undefined : last);
  }

  #keysWithin(start: string, end: string | undefined): readonly string[] {
    const keys: string[] = [];
    for (const key of this.#latest.keys()) if (isKeyWithin(key, start, end)) keys.push(key);
    return keys.sort(compareKeys);
  }
}

function bytesOf({ objects, log }: Batch): number {
  let bytes = 0;
  for (const { key, value } of objects) bytes += key.length + (value?.length ?? 0);
  for (const { value } of log) bytes += value.length;
  return bytes;
}
