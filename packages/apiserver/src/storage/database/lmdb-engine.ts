import { type Database, open, type RootDatabase, type Transaction } from "lmdb";
import { failureOf } from "./commit-failure.ts";
import {
  type Batch,
  type Engine,
  initialPosition,
  keysPerPart,
  type KeyValue,
  type LogRecord,
  type PinnedEngineState,
  type Position,
  type State,
} from "./engine.ts";
import { keyAfter } from "./key-order.ts";
import { damagedValue, isSealed, sealValue, unsealValue } from "./sealed-value.ts";

/** A read transaction and its number of users: the engine itself, and pins. */
interface Snapshot {
  readonly transaction: Transaction;
  users: number;
}

/**
 * The table of objects, read without copying values: LMDB's client reads each value into one large buffer, whose `length` property it sets
 * to that of the value.
 */
const borrowedTable = {
  name: "objects",
  encoder: {
    encode: (value: Buffer): Buffer => value,
    decode: (bytes: Buffer, size: number = bytes.length): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, size),
  },
};

/** The maximum size of a key. LMDB's client throws if one exceeds 1,978 bytes. */
const maxKeyBytes = 1_978;

/** Whether an object can have this key. */
const fits = (key: string): boolean => Buffer.byteLength(key) <= maxKeyBytes;

/** The maximum number of states held at the same time, including those of lists in progress. */
const maxReaders = 4_096;

/** What {@link LmdbEngine} takes. */
export interface LmdbEngineOptions {
  readonly dir: string;
  /** False: flushing is left to the operating system. Acknowledged commits then survive SIGKILL but not power loss. */
  readonly sync: boolean;
}

/** An {@link Engine} on LMDB in a directory. The caller makes sure that one process at a time has it open. */
export class LmdbEngine implements Engine {
  readonly #dir: string;
  readonly #root: RootDatabase;
  readonly #objects: Database<Buffer, string>;
  /** The same table. Its values are views of one buffer, which the next read overwrites. */
  readonly #borrowedObjects: Database<Buffer, string>;
  readonly #log: Database<Buffer, number>;
  readonly #meta: Database<Buffer, string>;
  readonly #pins = new Set<() => void>();
  readonly #current: State;
  /** All reads use one snapshot that is renewed when a commit is acknowledged: LMDB itself would show commits earlier. */
  #snapshot: Snapshot;
  #position: Position;
  /** Whether every value has a checksum. */
  #isSealed: boolean;

  constructor({ dir, sync }: LmdbEngineOptions) {
    this.#dir = dir;
    // A commit is two consecutive flushes: its pages (fdatasync), then the page that makes them valid (O_DSYNC). Overlapping sync
    // takes as many and shows a commit before it is on disk; here, visible means durable.
    this.#root = open({
      path: dir,
      // Otherwise a path with a dot counts as a file.
      noSubdir: false,
      maxDbs: 4,
      maxReaders,
      overlappingSync: false,
      noSync: !sync,
      encoding: "binary",
    });
    this.#objects = this.#root.openDB({ name: "objects", encoding: "binary" });
    this.#borrowedObjects = this.#root.openDB(borrowedTable);
    this.#log = this.#root.openDB({ name: "log", encoding: "binary" });
    this.#meta = this.#root.openDB({ name: "meta", encoding: "binary" });
    this.#snapshot = this.#newSnapshot();
    this.#current = this.#stateOf(() => this.#snapshot);
    this.#isSealed = this.#meta.get("format", this.#snapshot) !== undefined;
    this.#position = this.#readPosition();
  }

  get position(): Position {
    return this.#position;
  }

  /** Whether every value has a checksum. Data directories of earlier versions have none. */
  get isSealed(): boolean {
    return this.#isSealed;
  }

  /**
   * Adds checksums to the values of an older data directory. It can be interrupted and repeated. `onSealed` is called before the directory
   * requires them.
   */
  async seal(onSealed: () => void): Promise<void> {
    await this.#sealTable(this.#objects);
    await this.#sealTable(this.#log);
    await this.#transact([this.#meta.put("position", sealedJson("position", this.#position))]);
    onSealed();
    await this.#transact([this.#meta.put("format", sealedJson("format", { version: 2 }))]);
    this.#isSealed = true;
    this.#renewSnapshot();
  }

  get(key: string): Uint8Array | undefined {
    return this.#current.get(key);
  }

  has(key: string): boolean {
    return this.#current.has(key);
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#current.range(start, end);
  }

  borrow(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#current.borrow(start, end);
  }

  count(start: string, end: string | undefined): Iterable<number> {
    return this.#current.count(start, end);
  }

  log(after: number, newestFirst?: boolean, before?: number): Iterable<LogRecord> {
    return this.#current.log(after, newestFirst, before);
  }

  pin(): PinnedEngineState {
    const held = this.#snapshot;
    held.users += 1;
    const release = (): void => {
      if (this.#pins.delete(release)) leave(held);
    };
    this.#pins.add(release);
    return { ...this.#stateOf(() => held), release };
  }

  async commit(batch: Batch): Promise<void> {
    // Puts of one turn form one transaction; each returns a promise that rejects if the transaction fails.
    const puts: Promise<unknown>[] = [this.#meta.put("position", sealedJson("position", batch.position))];
    for (const { key, value } of batch.objects) {
      puts.push(value ? this.#objects.put(key, sealValue(key, value)) : this.#objects.remove(key));
    }
    for (const { revision, value } of batch.log) puts.push(this.#log.put(revision, sealValue(String(revision), value)));
    for (let old = batch.dropAfter + 1; old <= batch.position.compacted; old++) puts.push(this.#log.remove(old));
    await this.#transact(puts);
    this.#position = batch.position;
    this.#renewSnapshot();
  }

  /** Writes a copy without free pages to another directory. */
  async copyCompacted(dir: string): Promise<void> {
    await this.#root.backup(dir, true);
  }

  async close(): Promise<void> {
    for (const release of this.#pins) release();
    leave(this.#snapshot);
    await this.#root.close();
  }

  async #transact(puts: readonly Promise<unknown>[]): Promise<void> {
    try {
      await Promise.all(puts);
    } catch (error) {
      // The database also rejects a promise for the transaction itself; unhandled, that would end the process.
      this.#root.committed.then(undefined, () => undefined);
      throw await failureOf(error, this.#dir);
    }
  }

  async #sealTable<K extends string | number>(table: Database<Buffer, K>): Promise<void> {
    let puts: Promise<unknown>[] = [];
    for (const { key, value } of table.getRange({ snapshot: true })) {
      if (isSealed(value)) continue;
      puts.push(table.put(key, sealValue(String(key), value)));
      if (puts.length < sealBatch) continue;
      await this.#transact(puts);
      puts = [];
    }
    await this.#transact(puts);
  }

  #readPosition(): Position {
    const value = this.#meta.get("position", this.#snapshot);
    if (value === undefined) return initialPosition;
    const { revision, compacted } = JSON.parse(this.#unseal("position", "the position", value).toString()) as Position;
    return { revision, compacted };
  }

  /** The bytes of a value; `what` names it in errors. */
  #unseal(key: string, what: string, value: Buffer): Buffer {
    if (!this.#isSealed && !isSealed(value)) return value;
    const bytes = unsealValue(key, value);
    if (bytes === undefined) throw damagedValue(what);
    return bytes;
  }

  #renewSnapshot(): void {
    leave(this.#snapshot);
    this.#snapshot = this.#newSnapshot();
  }

  #newSnapshot(): Snapshot {
    return { transaction: this.#root.useReadTransaction(), users: 1 };
  }

  #stateOf(read: () => Snapshot): State {
    const objects = this.#objects;
    const borrowed = this.#borrowedObjects;
    const entries = this.#log;
    const object = (key: string, value: Buffer): Buffer => this.#unseal(key, `object ${key}`, value);
    const event = (revision: number, value: Buffer): Buffer =>
      this.#unseal(String(revision), `the event of revision ${revision}`, value);
    function* within(table: Database<Buffer, string>, start: string, end: string | undefined): Generator<KeyValue> {
      if (!fits(start)) return;
      const bounds = { start, ...(end === undefined ? {} : { end }) };
      for (const { key, value } of table.getRange({ transaction: read().transaction, ...bounds })) {
        yield { key, value: object(key, value) };
      }
    }
    return {
      get(key) {
        const value = fits(key) ? objects.get(key, read()) : undefined;
        return value && object(key, value);
      },
      has: (key) =>
        fits(key) &&
        [...objects.getKeys({ transaction: read().transaction, start: key, end: keyAfter(key), limit: 1 })].length > 0,
      range: (start, end) => within(objects, start, end),
      borrow: (start, end) => within(borrowed, start, end),
      *count(start, end) {
        if (!fits(start)) return;
        for (let from = start; ; ) {
          const bounds = { transaction: read().transaction, start: from, ...(end === undefined ? {} : { end }) };
          // The database skips keys several times faster than it returns them.
          const [next] = objects.getKeys({ ...bounds, offset: keysPerPart, limit: 1 });
          if (next === undefined) {
            yield objects.getKeysCount(bounds);
            return;
          }
          yield keysPerPart;
          from = next;
        }
      },
      *log(after, newestFirst = false, before) {
        // A reverse range starts at its upper end and stops before its lower one.
        const upper = before === undefined ? {} : { start: before - 1 };
        const bounds = newestFirst ? { ...upper, end: after, reverse: true } : { start: after + 1 };
        for (const { key, value } of entries.getRange({ transaction: read().transaction, ...bounds })) {
          yield { revision: key, value: event(key, value) };
        }
      },
    };
  }
}

/** Values per transaction when checksums are added. */
const sealBatch = 1_000;

function sealedJson(key: string, value: unknown): Buffer {
  return sealValue(key, Buffer.from(JSON.stringify(value)));
}

function leave(snapshot: Snapshot): void {
  snapshot.users -= 1;
  if (snapshot.users === 0) snapshot.transaction.done();
}
