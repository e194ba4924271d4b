import { TransportError } from "../transport/transport-error.ts";

const newline = 0x0a;

/**
 * Splits a byte stream into lines. Chunks are joined once per line, so that a large line costs one copy for any number of chunks, and a
 * character that spans two chunks stays intact.
 */
export class LineSplitter {
  readonly #maxLineBytes: number;
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** Number of bytes of the incomplete line. */
  get pendingBytes(): number {
    return this.#bytes;
  }

  /**
   * The lines that end in `chunk`, without their newline and without empty lines.
   *
   * **Errors**: `TransportError` `InvalidResponse` if a line is too long.
   */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      this.#check(end - start);
      const line = this.#take(chunk.subarray(start, end));
      if (line.length > 0) lines.push(line);
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#check(chunk.length - start);
      this.#chunks.push(start === 0 ? chunk : chunk.subarray(start));
      this.#bytes += chunk.length - start;
    }
    return lines;
  }

  #check(more: number): void {
    if (this.#bytes + more > this.#maxLineBytes) {
      throw new TransportError("InvalidResponse", `a watch event is longer than ${this.#maxLineBytes} bytes`);
    }
  }

  #take(last: Buffer): Buffer {
    if (this.#bytes === 0) return last;
    const line = Buffer.concat([...this.#chunks, last], this.#bytes + last.length);
    this.#chunks = [];
    this.#bytes = 0;
    return line;
  }
}
