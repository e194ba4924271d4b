import { crc32 } from "node:zlib";
import { StorageError } from "../storage-error.ts";

/**
 * A value in the database with a checksum over its key and bytes, so that altered values and values under a wrong key are noticed:
 *
 *     | 0x4b | checksum 4 | bytes |
 *
 * Values of older data directories have no checksum. None of those begins with 0x4b: objects begin with the exponent of a revision
 * (0x3f to 0x43), log entries with 1 or 2, JSON with 0x7b.
 */
const sealedMark = 0x4b;
const headBytes = 5;

/** Adds the checksum to a value. `key` is the key as text. */
export function sealValue(key: string, bytes: Uint8Array): Buffer {
  const sealed = Buffer.allocUnsafe(headBytes + bytes.length);
  sealed.set(bytes, headBytes);
  sealed.writeUInt8(sealedMark, 0);
  sealed.writeUInt32BE(crc32(sealed.subarray(headBytes), crc32(key)), 1);
  return sealed;
}

/** Whether a value has a checksum. */
export function isSealed(value: Uint8Array): boolean {
  return value[0] === sealedMark && value.length >= headBytes;
}

/** The bytes of a sealed value, as a view; undefined if the checksum does not match. */
export function unsealValue(key: string, value: Uint8Array): Buffer | undefined {
  if (!isSealed(value)) return undefined;
  const buffer = Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.length);
  const bytes = buffer.subarray(headBytes);
  return crc32(bytes, crc32(key)) === buffer.readUInt32BE(1) ? bytes : undefined;
}

/** The error for a value whose checksum does not match. `what` names it. */
export function damagedValue(what: string): StorageError {
  return new StorageError("Damaged", `${what} is damaged in the storage: its checksum does not match`);
}
