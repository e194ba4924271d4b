import { constants, createDeflate, createInflate, type Deflate, type Inflate } from "node:zlib";
import { spdyDictionary } from "./spdy-dictionary.ts";
import { StreamError } from "./stream-error.ts";

/** Headers of a stream, with lower-case names. */
export type SpdyHeaders = Readonly<Record<string, string>>;

/**
 * Encodes and decodes the header blocks of one connection (SPDY protocol draft 3.1, section 2.6.10). All blocks of a direction form one
 * zlib stream, so each must pass through here exactly once and in order.
 */
export class SpdyHeaderCodec {
  readonly #inflate: Inflate = createInflate({ dictionary: spdyDictionary });
  readonly #deflate: Deflate = createDeflate({ dictionary: spdyDictionary });

  constructor() {
    // Errors reach callers through their rejected promise.
    this.#inflate.on("error", () => {});
    this.#deflate.on("error", () => {});
  }

  /** Decodes a block. Rejects if it is malformed or longer than 16 KiB. */
  async decode(block: Buffer): Promise<SpdyHeaders> {
    const zlib = this.#inflate;
    await new Promise<void>((resolve, reject) => {
      const settle = (error?: Error | null): void => {
        zlib.off("error", reject);
        zlib.off("readable", checkLength);
        if (error) reject(error);
        else resolve();
      };
      // zlib stops at the high-water mark, so a longer block would never finish.
      const checkLength = (): void => {
        if (zlib.readableLength >= zlib.readableHighWaterMark) settle(new StreamError("TooLong", "header block is too long"));
      };
      zlib.on("readable", checkLength);
      zlib.once("error", reject);
      zlib.write(block, settle);
    });
    return readHeaders((zlib.read() as Buffer | null) ?? Buffer.alloc(0));
  }

  /** Encodes a block. */
  async encode(headers: SpdyHeaders): Promise<Buffer> {
    const entries = Object.entries(headers).map((pair) => pair.map((text) => Buffer.from(text)));
    const number = (value: number): Buffer => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(value);
      return bytes;
    };
    this.#deflate.write(
      Buffer.concat([number(entries.length), ...entries.flat().flatMap((text) => [number(text.length), text])]),
    );
    await new Promise<void>((resolve) => this.#deflate.flush(constants.Z_SYNC_FLUSH, resolve));
    return (this.#deflate.read() as Buffer | null) ?? Buffer.alloc(0);
  }

  close(): void {
    this.#inflate.close();
    this.#deflate.close();
  }
}

function readHeaders(bytes: Buffer): SpdyHeaders {
  let at = 0;
  const number = (): number => {
    at += 4;
    return bytes.readUInt32BE(at - 4);
  };
  const text = (): string => {
    const length = number();
    if (at + length > bytes.length) throw new StreamError("Protocol", "header block is truncated");
    at += length;
    return bytes.toString("utf8", at - length, at);
  };
  const headers = new Map<string, string>();
  for (let count = number(); count > 0; count--) headers.set(text().toLowerCase(), text());
  return Object.fromEntries(headers);
}
