/** Times at which the bytes of a log were written, as far as known. */
export interface LogTimes {
  /** The time of the byte at `offset` of the current file. Milliseconds since the epoch. */
  at(offset: number): number;
}

/** What a {@link LineFilter} does with lines. */
export interface LineOptions {
  /** Milliseconds since the epoch: earlier lines are omitted. */
  readonly since?: number;
  /** Prefixes each line with its time. */
  readonly timestamps: boolean;
}

/** The byte that ends a line. */
export const newline = 0x0a;

/**
 * Adds times to lines and omits lines before `since`. The time of a line is that of its first byte, so lines pass through as they arrive and
 * nothing is kept, however long a line is.
 */
export class LineFilter {
  readonly #options: LineOptions;
  readonly #times: LogTimes;
  #isInLine = false;
  #isOmitted = false;

  constructor(options: LineOptions, times: LogTimes) {
    this.#options = options;
    this.#times = times;
  }

  /** The lines and parts of lines in `bytes`, which begin at the offset `at` of the log. */
  push(bytes: Uint8Array, at: number): Uint8Array {
    const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const out: Buffer[] = [];
    for (let begin = 0; begin < data.length; ) {
      const found = data.indexOf(newline, begin);
      const end = found < 0 ? data.length : found + 1;
      if (!this.#isInLine) this.#begin(at + begin, out);
      if (!this.#isOmitted) out.push(data.subarray(begin, end));
      this.#isInLine = found < 0;
      begin = end;
    }
    return Buffer.concat(out);
  }

  #begin(offset: number, out: Buffer[]): void {
    const at = this.#times.at(offset);
    this.#isOmitted = this.#options.since !== undefined && at < this.#options.since;
    if (this.#options.timestamps && !this.#isOmitted) {
      out.push(Buffer.from(`${new Date(at).toISOString().replace("Z", "000000Z")} `));
    }
  }
}
