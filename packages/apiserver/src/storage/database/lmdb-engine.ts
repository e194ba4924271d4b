import { statfs } from "node:fs/promises";
import { type Database, open, type RootDatabase, type Transaction } from "lmdb";
import { storageFull } from "../storage-error.ts";
import {
  type Batch,
  type Engine,
  initialPosition,
  type KeyValue,
  type LogRecord,
  type PinnedEngineState,
  type Position,
  type State,
} from "./engine.ts";

/** A read transaction and its number of users: the engine itself, and pins. */
interface Snapshot {
  readonly transaction: Transaction;
  users: number;
}

/** The maximum number of states held at the same time, including those of lists in progress. */
const maxReaders = 4_096;

/** What {@link LmdbEngine} takes. */
export interface LmdbEngineOptions {
  readonly dir: string;
  /** False: flushing is left to the operating system. Acknowledged commits then survive SIGKILL but not power loss. */
  readonly sync: boolean;
}

/** An {@link Engine} on LMDB in a folder. The caller makes sure that one process at a time has it open. */
export class LmdbEngine implements Engine {
  readonly #dir: string;
  readonly #root: RootDatabase;
  readonly #objects: Database<Buffer, string>;
  readonly #log: Database<Buffer, number>;
  readonly #meta: Database<Position, string>;
  readonly #pins = new Set<() => void>();
  readonly #current: State;
  /** All reads use one snapshot that is renewed when a commit is acknowledged: LMDB itself would show commits earlier. */
  #snapshot: Snapshot;
  #position: Position;

  constructor({ dir, sync }: LmdbEngineOptions) {
    this.#dir = dir;
    // A commit is two consecutive flushes: its pages (fdatasync), then the page that makes them valid (O_DSYNC). Overlapping sync
    // takes as many and shows a commit before it is on disk; here, visible means durable.
    this.#root = open({ path: dir, maxDbs: 4, maxReaders, overlappingSync: false, noSync: !sync, encoding: "binary" });
    this.#objects = this.#root.openDB({ name: "objects", encoding: "binary" });
    this.#log = this.#root.openDB({ name: "log", encoding: "binary" });
    this.#meta = this.#root.openDB({ name: "meta", encoding: "json" });
    this.#snapshot = this.#newSnapshot();
    this.#current = this.#stateOf(() => this.#snapshot);
    const stored = this.#meta.get("position", this.#snapshot);
    this.#position = stored === undefined ? initialPosition : { revision: stored.revision, compacted: stored.compacted };
  }

  get position(): Position {
    return this.#position;
  }

  get(key: string): Uint8Array | undefined {
    return this.#current.get(key);
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#current.range(start, end);
  }

  count(start: string, end: string | undefined): number {
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
    const puts: Promise<unknown>[] = [this.#meta.put("position", batch.position)];
    for (const { key, value } of batch.objects) {
      puts.push(value ? this.#objects.put(key, asBuffer(value)) : this.#objects.remove(key));
    }
    for (const { revision, value } of batch.log) puts.push(this.#log.put(revision, asBuffer(value)));
    for (let old = batch.dropAfter + 1; old <= batch.position.compacted; old++) puts.push(this.#log.remove(old));
    try {
      await Promise.all(puts);
    } catch (error) {
      // The database also rejects a promise for the transaction itself; unhandled, that would end the process.
      this.#root.committed.then(undefined, () => undefined);
      throw await failureOf(error, this.#dir);
    }
    this.#position = batch.position;
    leave(this.#snapshot);
    this.#snapshot = this.#newSnapshot();
  }

  async close(): Promise<void> {
    for (const release of this.#pins) release();
    leave(this.#snapshot);
    await this.#root.close();
  }

  #newSnapshot(): Snapshot {
    return { transaction: this.#root.useReadTransaction(), users: 1 };
  }

  #stateOf(read: () => Snapshot): State {
    const objects = this.#objects;
    const entries = this.#log;
    return {
      get: (key) => objects.get(key, read()),
      *range(start, end) {
        const bounds = { start, ...(end === undefined ? {} : { end }) };
        for (const { key, value } of objects.getRange({ transaction: read().transaction, ...bounds })) yield { key, value };
      },
      count: (start, end) =>
        objects.getKeysCount({ transaction: read().transaction, start, ...(end === undefined ? {} : { end }) }),
      *log(after, newestFirst = false, before) {
        // A reverse range starts at its upper end and stops before its lower one.
        const upper = before === undefined ? {} : { start: before - 1 };
        const bounds = newestFirst ? { ...upper, end: after, reverse: true } : { start: after + 1 };
        for (const { key, value } of entries.getRange({ transaction: read().transaction, ...bounds })) {
          yield { revision: key, value };
        }
      },
    };
  }
}

function leave(snapshot: Snapshot): void {
  snapshot.users -= 1;
  if (snapshot.users === 0) snapshot.transaction.done();
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Codes of LMDB (lmdb.h) and the operating system (errno.h of Linux and macOS) for a lack of space. */
const fullCodes: ReadonlySet<unknown> = new Set([
  -30_792, // MDB_MAP_FULL
  27, // EFBIG
  28, // ENOSPC
  69, // EDQUOT on macOS
  122, // EDQUOT on Linux
]);

/** The errno of a partial write (EIO), which LMDB reports both at the end of a disk and for a broken disk. */
const partialWrite = 5;
/** With less space than this left, a partial write means that the disk is full. */
const fullBytes = 1024 * 1024;

/** Why a commit failed. LMDB passes the reason as a promise that rejects with it. */
async function failureOf(error: unknown, dir: string): Promise<unknown> {
  if (!(error instanceof Error) || !("commitError" in error)) return error;
  const cause = await Promise.resolve(error.commitError).catch((reason: unknown) => reason);
  if (!(cause instanceof Error) || !("code" in cause)) return error;
  const isFull = fullCodes.has(cause.code) || (cause.code === partialWrite && (await spaceLeft(dir)) < fullBytes);
  return isFull ? storageFull(cause) : cause;
}

async function spaceLeft(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
