import { crc32 } from "node:zlib";
import type { Batch } from "../database/engine.ts";

/**
 * A commit in the journal. The checksum decides whether it is there in full. `base` is the revision that it follows, so that a missing
 * record is noticed.
 *
 *     | "KSJ1" | checksum 4 | body length 4 | body |
 *     body: | base 8 | revision 8 | compacted 8 | dropAfter 8 | objects 4 | log entries 4 | objects ... | log entries ... |
 *     object: | key length 2 | value length 4, all ones for a removal | key | value |
 *     log entry: | revision 8 | value length 4 | value |
 */
export interface JournalRecord {
  readonly base: number;
  readonly batch: Batch;
}

/** How every record begins: "KSJ1". */
export const journalMagic: Buffer = Buffer.from("KSJ1");

const magic = journalMagic.readUInt32BE(0);
const headBytes = 12;
const bodyHeadBytes = 40;
const objectHeadBytes = 6;
const entryHeadBytes = 12;
const removed = 0xffff_ffff;

/** Encodes a record. Keys of 64 KiB and more throw a `RangeError`. */
export function encodeJournalRecord({ base, batch }: JournalRecord): Buffer {
  const { objects, log, position, dropAfter } = batch;
  const keys = objects.map(({ key }) => Buffer.from(key));
  let length = headBytes + bodyHeadBytes;
  for (const [index, { value }] of objects.entries())
    length += objectHeadBytes + (keys[index]?.length ?? 0) + (value?.length ?? 0);
  for (const { value } of log) length += entryHeadBytes + value.length;

  const buffer = Buffer.allocUnsafe(length);
  let at = headBytes;
  for (const number of [base, position.revision, position.compacted, dropAfter]) at = buffer.writeDoubleBE(number, at);
  at = buffer.writeUInt32BE(objects.length, at);
  at = buffer.writeUInt32BE(log.length, at);
  for (const [index, { value }] of objects.entries()) {
    const key = keys[index] ?? Buffer.alloc(0);
    at = buffer.writeUInt16BE(key.length, at);
    at = buffer.writeUInt32BE(value?.length ?? removed, at);
    at += key.copy(buffer, at);
    if (value !== undefined) buffer.set(value, at);
    at += value?.length ?? 0;
  }
  for (const { revision, value } of log) {
    at = buffer.writeDoubleBE(revision, at);
    at = buffer.writeUInt32BE(value.length, at);
    buffer.set(value, at);
    at += value.length;
  }
  buffer.writeUInt32BE(magic, 0);
  buffer.writeUInt32BE(crc32(buffer.subarray(headBytes)), 4);
  buffer.writeUInt32BE(length - headBytes, 8);
  return buffer;
}

/** Decodes the record at `offset`; undefined if there is no complete one. Keys and values are copies of the buffer's bytes. */
export function decodeJournalRecord(
  buffer: Buffer,
  offset: number,
): { readonly record: JournalRecord; readonly end: number } | undefined {
  if (offset + headBytes > buffer.length || buffer.readUInt32BE(offset) !== magic) return undefined;
  const start = offset + headBytes;
  const end = start + buffer.readUInt32BE(offset + 8);
  if (end > buffer.length || end < start + bodyHeadBytes) return undefined;
  if (crc32(buffer.subarray(start, end)) !== buffer.readUInt32BE(offset + 4)) return undefined;
  let at = start + bodyHeadBytes;
  const take = (length: number): Buffer => Buffer.from(buffer.subarray(at, (at += length)));
  const objects = Array.from({ length: buffer.readUInt32BE(start + 32) }, () => {
    const keyLength = buffer.readUInt16BE(at);
    const valueLength = buffer.readUInt32BE(at + 2);
    at += objectHeadBytes;
    const key = take(keyLength).toString();
    return { key, value: valueLength === removed ? undefined : take(valueLength) };
  });
  const log = Array.from({ length: buffer.readUInt32BE(start + 36) }, () => {
    const revision = buffer.readDoubleBE(at);
    const length = buffer.readUInt32BE(at + 8);
    at += entryHeadBytes;
    return { revision, value: take(length) };
  });
  const position = { revision: buffer.readDoubleBE(start + 8), compacted: buffer.readDoubleBE(start + 16) };
  return {
    record: { base: buffer.readDoubleBE(start), batch: { objects, log, position, dropAfter: buffer.readDoubleBE(start + 24) } },
    end,
  };
}
