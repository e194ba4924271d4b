import { StreamError } from "./stream-error.ts";

/** A frame of SPDY/3.1 (protocol draft 3.1, section 2.2). */
export type SpdyFrame =
  | { readonly kind: "control"; readonly type: number; readonly flags: number; readonly payload: Buffer }
  | { readonly kind: "data"; readonly stream: number; readonly flags: number; readonly payload: Buffer };

/** Control frame types. */
export const frameTypes = { synStream: 1, synReply: 2, rstStream: 3, settings: 4, ping: 6, goAway: 7, headers: 8 } as const;
/** Marks the last frame of the sender's half of a stream. */
export const finFlag = 0x01;

const version = 3;
/** The maximum frame size; kubectl sends at most 32 KiB. */
const maxFrameBytes = 1024 * 1024;

/** Encodes a control frame. */
export function controlFrame(type: number, flags: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(0x8000 | version, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt32BE(((flags << 24) | payload.length) >>> 0, 4);
  return Buffer.concat([head, payload]);
}

/** Encodes a data frame. */
export function dataFrame(stream: number, flags: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(stream, 0);
  head.writeUInt32BE(((flags << 24) | payload.length) >>> 0, 4);
  return Buffer.concat([head, payload]);
}

/** Encodes 32-bit integers. */
export function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4);
  return bytes;
}

/** Splits a byte stream into frames. Throws a StreamError for another protocol or an oversized frame. */
export class SpdyFrameReader {
  #buffer: Buffer = Buffer.alloc(0);

  *push(bytes: Buffer): Generator<SpdyFrame> {
    this.#buffer = this.#buffer.length === 0 ? bytes : Buffer.concat([this.#buffer, bytes]);
    while (this.#buffer.length >= 8) {
      const first = this.#buffer.readUInt32BE(0);
      const second = this.#buffer.readUInt32BE(4);
      const length = second & 0xffffff;
      if (length > maxFrameBytes) throw new StreamError("TooLong", `frame of ${length} bytes exceeds ${maxFrameBytes}`);
      if (this.#buffer.length < 8 + length) return;
      const payload = this.#buffer.subarray(8, 8 + length);
      this.#buffer = this.#buffer.subarray(8 + length);
      const flags = second >>> 24;
      if (first < 0x80000000) {
        yield { kind: "data", stream: first, flags, payload };
        continue;
      }
      if (((first >>> 16) & 0x7fff) !== version) throw new StreamError("Protocol", "not a SPDY/3 frame");
      yield { kind: "control", type: first & 0xffff, flags, payload };
    }
  }
}
