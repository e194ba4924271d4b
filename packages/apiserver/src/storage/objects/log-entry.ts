/**
 * An entry of the event log. It is an undo record: it holds the object as it was before the event. A create costs nothing, the
 * newest state is stored once (as the object itself), and an older one is found by walking back.
 *
 *     | type 1 | time 8 | previous revision 8 | key length 2 | key | previous bytes ... |
 */
export interface LogEntry {
  readonly type: "put" | "delete";
  readonly timeMs: number;
  readonly key: string;
  /** 0, without bytes, if the key did not exist. */
  readonly previousRevision: number;
  readonly previousBytes: Uint8Array | undefined;
}

const headerBytes = 19;

/** Encodes a log entry. */
export function encodeLogEntry(entry: LogEntry): Uint8Array {
  const key = Buffer.from(entry.key);
  const buffer = Buffer.allocUnsafe(headerBytes + key.length + (entry.previousBytes?.length ?? 0));
  buffer.writeUInt8(entry.type === "put" ? 1 : 2, 0);
  buffer.writeDoubleBE(entry.timeMs, 1);
  buffer.writeDoubleBE(entry.previousRevision, 9);
  buffer.writeUInt16BE(key.length, 17);
  key.copy(buffer, headerBytes);
  if (entry.previousBytes !== undefined) buffer.set(entry.previousBytes, headerBytes + key.length);
  return buffer;
}

/** Decodes a log entry; `previousBytes` is a view of `value`. */
export function decodeLogEntry(value: Uint8Array): LogEntry {
  const buffer = Buffer.from(value.buffer, value.byteOffset, value.length);
  const end = headerBytes + buffer.readUInt16BE(17);
  const previousRevision = buffer.readDoubleBE(9);
  return {
    type: buffer.readUInt8(0) === 1 ? "put" : "delete",
    timeMs: buffer.readDoubleBE(1),
    key: buffer.toString("utf8", headerBytes, end),
    previousRevision,
    previousBytes: previousRevision === 0 ? undefined : buffer.subarray(end),
  };
}

/** Encodes an object for the database: its revision, then its bytes. */
export function encodeRecord(revision: number, bytes: Uint8Array): Uint8Array {
  const buffer = Buffer.allocUnsafe(8 + bytes.length);
  buffer.writeDoubleBE(revision, 0);
  buffer.set(bytes, 8);
  return buffer;
}

/** The inverse of {@link encodeRecord}; `bytes` is a view of `value`. */
export function decodeRecord(value: Uint8Array): { readonly revision: number; readonly bytes: Uint8Array } {
  const buffer = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.length);
  return { revision: buffer.readDoubleBE(0), bytes: buffer.subarray(8) };
}
