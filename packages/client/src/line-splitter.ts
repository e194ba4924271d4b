import { TransportError } from "./transport-error.ts";

const newline = 0x0a;

/**
 * Cuts a byte stream into lines. Bytes are kept as they came and joined once a line, so a large line costs one copy however
 * many pieces it came in, and a character that straddles two pieces stays whole.
 */
export class LineSplitter {
  readonly #maxLineBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** Bytes of a line that has not ended. */
  get pendingBytes(): number {
    return this.#bytes;
  }

  /**
   * The lines that end in `chunk`, without their newline; empty ones are left out.
   *
   * **Errors**: `TransportError` `InvalidResponse` when a line is longer than allowed.
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
      this.#pieces.push(start === 0 ? chunk : chunk.subarray(start));
      this.#bytes += chunk.length - start;
    }
    return lines;
  }

  #check(more: number): void {
    if (this.#bytes + more > this.#maxLineBytes) {
      throw new TransportError("InvalidResponse", `a line of the watch is longer than ${this.#maxLineBytes} bytes`);
    }
  }

  #take(last: Buffer): Buffer {
    if (this.#bytes === 0) return last;
    const line = Buffer.concat([...this.#pieces, last], this.#bytes + last.length);
    this.#pieces = [];
    this.#bytes = 0;
    return line;
  }
}
