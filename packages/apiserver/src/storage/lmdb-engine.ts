import { statfs } from "node:fs/promises";
import { type Database, open, type Transaction } from "lmdb";
import { type Batch, type Engine, type Position, type State, StorageFullError } from "./engine.ts";

/** Until something was written, the revision is 1: to a client, 0 means "any". */
const initial: Position = { revision: 1, compacted: 1 };

/** A state that is read, and by how many: the engine itself, and pins. */
interface Snapshot {
  readonly transaction: Transaction;
  users: number;
}

/** States that can be held at once, those of lists under way among them. */
const maxReaders = 4_096;

/**
 * An {@link Engine} on LMDB in the folder `dir`. `sync` false leaves flushing to the operating system: what is acknowledged then
 * survives SIGKILL but not power loss. Caller's duty: one process at a time.
 */
export function openLmdbEngine(options: { readonly dir: string; readonly sync: boolean }): Engine {
  // A commit is two flushes, one after the other: its pages (fdatasync), then the page that makes them valid (O_DSYNC). Overlapping sync
  // makes as many, and shows a commit before it is on disk; here seen means durable. The revision keeps our reads steady.
  const root = open({
    path: options.dir,
    maxDbs: 4,
    maxReaders,
    overlappingSync: false,
    noSync: !options.sync,
    encoding: "binary",
  });
  const objects: Database<Buffer, string> = root.openDB({ name: "objects", encoding: "binary" });
  const log: Database<Buffer, number> = root.openDB({ name: "log", encoding: "binary" });
  const meta: Database<Position, string> = root.openDB({ name: "meta", encoding: "json" });
  // Every read goes through one snapshot that is renewed when a commit is acknowledged: LMDB itself would show commits earlier.
  let snapshot: Snapshot = { transaction: root.useReadTransaction(), users: 1 };
  const stored = meta.get("position", snapshot);
  let position: Position = stored === undefined ? initial : { revision: stored.revision, compacted: stored.compacted };
  const leave = (left: Snapshot): void => {
    left.users -= 1;
    if (left.users === 0) left.transaction.done();
  };
  const stateOf = (read: () => Snapshot): State => ({
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
      for (const { key, value } of log.getRange({ transaction: read().transaction, ...bounds })) yield { revision: key, value };
    },
  });
  const pins = new Set<() => void>();
  return {
    get position() {
      return position;
    },
    ...stateOf(() => snapshot),
    pin() {
      const held = snapshot;
      held.users += 1;
      const release = (): void => {
        if (pins.delete(release)) leave(held);
      };
      pins.add(release);
      return { ...stateOf(() => held), release };
    },
    async commit(batch: Batch) {
      // Puts of one turn are one transaction; each has a promise of its own that rejects when that fails.
      const puts: Promise<unknown>[] = [meta.put("position", batch.position)];
      for (const { key, value } of batch.objects) puts.push(value ? objects.put(key, asBuffer(value)) : objects.remove(key));
      for (const { revision, value } of batch.log) puts.push(log.put(revision, asBuffer(value)));
      for (let old = batch.dropAfter + 1; old <= batch.position.compacted; old++) puts.push(log.remove(old));
      try {
        await Promise.all(puts);
      } catch (error) {
        // The database makes a promise of its own for the transaction, which nobody else takes: unhandled, it would end the process.
        root.committed.then(undefined, () => undefined);
        throw await failureOf(error, options.dir);
      }
      position = batch.position;
      leave(snapshot);
      snapshot = { transaction: root.useReadTransaction(), users: 1 };
    },
    async close() {
      for (const release of pins) release();
      leave(snapshot);
      await root.close();
    },
  };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Codes of LMDB (lmdb.h) and the operating system (errno.h of Linux and macOS) that say that no more can be stored. */
const fullCodes: ReadonlySet<unknown> = new Set([
  -30_792, // MDB_MAP_FULL
  27, // EFBIG
  28, // ENOSPC
  69, // EDQUOT of macOS
  122, // EDQUOT of Linux
]);

/** Errno of a write that LMDB could make only in part, as it happens at the end of a disk, and of a disk that is broken. */
const partlyWritten = 5;
/** With less than this left, a write in part is for want of space. */
const fullBytes = 1024 * 1024;

/** Why a commit failed: the database hands the reason over as a promise that rejects with it. */
async function failureOf(error: unknown, dir: string): Promise<unknown> {
  if (!(error instanceof Error) || !("commitError" in error)) return error;
  const cause = await Promise.resolve(error.commitError).catch((reason: unknown) => reason);
  if (!(cause instanceof Error) || !("code" in cause)) return error;
  const isFull = fullCodes.has(cause.code) || (cause.code === partlyWritten && (await spaceLeft(dir)) < fullBytes);
  return isFull ? new StorageFullError("no space is left for the data folder", { cause }) : cause;
}

async function spaceLeft(dir: string): Promise<number> {
  const { bavail, bsize } = await statfs(dir);
  return bavail * bsize;
}
