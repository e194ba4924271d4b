import type { Batch, KeyValue, LogRecord, State } from "../database/engine.ts";
import { compareKeys, endOfPrefix, isKeyWithin } from "../database/key-order.ts";

/** The newest value of a key and the batch that wrote it. */
interface LatestWrite {
  readonly value: Uint8Array | undefined;
  readonly batch: Batch;
}

/** The newest write of each key, with the keys by kind: every write of any kind reads the short ranges of policies and quotas. */
class LatestWrites {
  readonly #writes = new Map<string, LatestWrite>();
  readonly #keys = new Map<string, Set<string>>();

  get(key: string): LatestWrite | undefined {
    return this.#writes.get(key);
  }

  set(key: string, write: LatestWrite): void {
    this.#writes.set(key, write);
    const kind = kindPrefix(key);
    const keys = this.#keys.get(kind);
    if (keys === undefined) this.#keys.set(kind, new Set([key]));
    else keys.add(key);
  }

  delete(key: string): void {
    this.#writes.delete(key);
    const kind = kindPrefix(key);
    const keys = this.#keys.get(kind);
    keys?.delete(key);
    if (keys?.size === 0) this.#keys.delete(kind);
  }

  /** The keys from `start` (inclusive) to `end` (exclusive), in order. */
  within(start: string, end: string | undefined): readonly string[] {
    const kind = kindPrefix(start);
    const endOfKind = endOfPrefix(kind);
    const isOneKind = endOfKind !== undefined && end !== undefined && compareKeys(end, endOfKind) <= 0;
    const candidates = isOneKind ? (this.#keys.get(kind) ?? []) : this.#writes.keys();
    const keys: string[] = [];
    for (const key of candidates) if (isKeyWithin(key, start, end)) keys.push(key);
    return keys.sort(compareKeys);
  }
}

/** The part of a storage key that names the kind: `group/plural/`. Empty if the key has none. */
function kindPrefix(key: string): string {
  return key.slice(0, key.indexOf("/", key.indexOf("/") + 1) + 1);
}

/** Commits that the database does not have yet, in order, as one layer above it. Lookups are by key; a range merges the two. */
export class RecentWrites {
  readonly #batches: Batch[] = [];
  readonly #latest = new LatestWrites();
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

/** Keys looked up in one part of a count: each takes several times as long as counting one. */
const lookupsPerPart = 500;

/** A state with recent writes on top. */
class LayeredState implements State {
  readonly #below: State;
  readonly #batches: readonly Batch[];
  readonly #latest: Pick<LatestWrites, "get" | "within">;

  constructor(below: State, batches: readonly Batch[], latest: Pick<LatestWrites, "get" | "within">) {
    this.#below = below;
    this.#batches = batches;
    this.#latest = latest;
  }

  get(key: string): Uint8Array | undefined {
    const written = this.#latest.get(key);
    return written === undefined ? this.#below.get(key) : written.value;
  }

  has(key: string): boolean {
    const written = this.#latest.get(key);
    return written === undefined ? this.#below.has(key) : written.value !== undefined;
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#merged(this.#below.range(start, end), start, end);
  }

  borrow(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#merged(this.#below.borrow(start, end), start, end);
  }

  /** The entries of `below` with the recent writes. The next one of `below` is requested only after the last one was used. */
  *#merged(below: Iterable<KeyValue>, start: string, end: string | undefined): Generator<KeyValue> {
    const keys = this.#latest.within(start, end);
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
    for (const entry of below) {
      // Most entries are older than all recent writes: a generator for each of them would take longer than reading it.
      if (next < keys.length) yield* before(entry.key);
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

  *count(start: string, end: string | undefined): Generator<number> {
    yield* this.#below.count(start, end);
    let change = 0;
    for (const [index, key] of this.#latest.within(start, end).entries()) {
      if (index > 0 && index % lookupsPerPart === 0) {
        yield change;
        change = 0;
      }
      change += Number(this.has(key)) - Number(this.#below.has(key));
    }
    yield change;
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
}

function bytesOf({ objects, log }: Batch): number {
  let bytes = 0;
  for (const { key, value } of objects) bytes += key.length + (value?.length ?? 0);
  for (const { value } of log) bytes += value.length;
  return bytes;
}
