import { type Database, open } from "lmdb";
import type { Batch, Engine, Position } from "./engine.ts";

/** Until something was written, the revision is 1: to a client, 0 means "any". */
const initial: Position = { revision: 1, compacted: 1 };

/**
 * An {@link Engine} on LMDB in the folder `dir`. `sync` false leaves flushing to the operating system: what is acknowledged then
 * survives SIGKILL but not power loss. Caller's duty: one process at a time.
 */
export function openLmdbEngine(options: { readonly dir: string; readonly sync: boolean }): Engine {
  // With overlapping sync a commit is seen before it is on disk; here seen means durable. The revision keeps our reads steady.
  const root = open({ path: options.dir, maxDbs: 4, overlappingSync: false, noSync: !options.sync, encoding: "binary" });
  const objects: Database<Buffer, string> = root.openDB({ name: "objects", encoding: "binary" });
  const log: Database<Buffer, number> = root.openDB({ name: "log", encoding: "binary" });
  const meta: Database<Position, string> = root.openDB({ name: "meta", encoding: "json" });
  // Every read goes through one snapshot that is renewed when a commit is acknowledged: LMDB itself would show commits earlier.
  let snapshot = root.useReadTransaction();
  const stored = meta.get("position", { transaction: snapshot });
  let position: Position = stored === undefined ? initial : { revision: stored.revision, compacted: stored.compacted };
  const renew = (): void => {
    snapshot.done();
    snapshot = root.useReadTransaction();
  };
  return {
    get position() {
      return position;
    },
    get: (key) => objects.get(key, { transaction: snapshot }),
    *range(start, end) {
      for (const { key, value } of objects.getRange({ transaction: snapshot, start, ...(end === undefined ? {} : { end }) })) {
        yield { key, value };
      }
    },
    count: (start, end) => objects.getKeysCount({ transaction: snapshot, start, ...(end === undefined ? {} : { end }) }),
    *log(after, newestFirst = false) {
      // A reverse range starts at its upper end and stops before its lower one.
      const bounds = newestFirst ? { end: after, reverse: true } : { start: after + 1 };
      for (const { key, value } of log.getRange({ transaction: snapshot, ...bounds })) yield { revision: key, value };
    },
    async commit(batch: Batch) {
      // Puts of one turn are one transaction; each has a promise of its own that rejects when that fails.
      const puts: Promise<unknown>[] = [meta.put("position", batch.position)];
      for (const { key, value } of batch.objects) puts.push(value ? objects.put(key, asBuffer(value)) : objects.remove(key));
      for (const { revision, value } of batch.log) puts.push(log.put(revision, asBuffer(value)));
      for (let old = batch.dropAfter + 1; old <= batch.position.compacted; old++) puts.push(log.remove(old));
      await Promise.all(puts);
      position = batch.position;
      renew();
    },
    async close() {
      snapshot.done();
      await root.close();
    },
  };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
