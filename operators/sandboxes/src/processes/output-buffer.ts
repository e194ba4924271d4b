/** A part of the output of a process. `offset` is its position in both outputs together, in bytes. */
export type OutputPart =
  | { readonly kind: "stdout" | "stderr"; readonly offset: number; readonly data: Buffer }
  /** `lostBytes` from `offset` on were dropped. */
  | { readonly kind: "gap"; readonly offset: number; readonly lostBytes: number };

type Chunk = Extract<OutputPart, { readonly data: Buffer }>;

/** A chunk with the memory that it can grow into: `data` is the start of `storage`. */
type StoredChunk = Chunk & { readonly storage: Buffer };

/** Chunks up to this size are joined: a process may write byte by byte. */
const joinedBytes = 4096;

/** Maximum number of chunks. Only a process that alternates between its outputs reaches it. */
const maxChunks = 16_384;

/** What an output does if it is full: `drop` its oldest part, or `wait` until a reader has taken more. */
export type WhenFull = "drop" | "wait";

/**
 * The last output of a process, for readers that come, go and return.
 *
 * **Guarantees**: holds at most `maxBytes` plus one chunk per stream, in a bounded number of chunks. A reader sees every byte once and in order, or a gap in its place.
 * With `wait`, only bytes that a reader has taken are dropped.
 */
export class OutputBuffer {
  readonly #maxBytes: number;
  readonly #whenFull: WhenFull;
  readonly #chunks: StoredChunk[] = [];
  /** Positions of the first byte that is kept, after the last one, and after the last one that a reader has taken. */
  #start = 0;
  #end = 0;
  #taken = 0;
  #isEnded = false;
  #wakes: (() => void)[] = [];

  constructor(maxBytes: number, whenFull: WhenFull) {
    this.#maxBytes = maxBytes;
    this.#whenFull = whenFull;
  }

  /** Bytes of output so far. */
  get bytes(): number {
    return this.#end;
  }

  /** Adds output. With `wait`, resolves when there is room for more. */
  async append(kind: Chunk["kind"], data: Buffer): Promise<void> {
    if (this.#isEnded || data.length === 0) return;
    this.#add(kind, data);
    this.#end += data.length;
    this.#trim();
    this.#wake();
    // Half of the buffer is for readers that return after bytes were lost on the way.
    while (this.#whenFull === "wait" && this.#isFull() && !this.#isEnded) await this.#changed();
  }

  /** No more output follows. */
  end(): void {
    this.#isEnded = true;
    this.#wake();
  }

  /** Reads from a position until the end of the output, or until `signal` aborts. A position that is ahead waits for the output. */
  async *read(from: number, signal: AbortSignal): AsyncGenerator<OutputPart> {
    let position = from;
    const wake = (): void => this.#wake();
    signal.addEventListener("abort", wake, { once: true });
    try {
      while (!signal.aborted) {
        const part = this.#next(position);
        if (part !== undefined) {
          yield part;
          position = part.offset + (part.kind === "gap" ? part.lostBytes : part.data.length);
          this.#take(position);
        } else if (this.#isEnded) return;
        else await this.#changed();
      }
    } finally {
      signal.removeEventListener("abort", wake);
    }
  }

  /** Whether readers have to take more before there is room. */
  #isFull(): boolean {
    const unreadChunks = this.#chunks.length - this.#indexOf(this.#taken);
    return this.#end - this.#taken > this.#maxBytes / 2 || unreadChunks > maxChunks / 2;
  }

  #add(kind: Chunk["kind"], data: Buffer): void {
    const last = this.#chunks.at(-1);
    const length = (last?.data.length ?? 0) + data.length;
    if (last?.kind !== kind || length > joinedBytes) {
      this.#chunks.push({ kind, offset: this.#end, data, storage: data });
      return;
    }
    let { storage } = last;
    if (storage.length < length) {
      storage = Buffer.allocUnsafeSlow(Math.min(length * 2, joinedBytes));
      last.data.copy(storage);
    }
    // Readers that have the previous part still see the same bytes.
    data.copy(storage, last.data.length);
    this.#chunks[this.#chunks.length - 1] = { ...last, storage, data: storage.subarray(0, length) };
  }

  /** Index of the chunk with the byte at a position, of the first chunk for an earlier one; the number of chunks for a later one. */
  #indexOf(position: number): number {
    let [from, to] = [0, this.#chunks.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      const chunk = this.#chunks[middle];
      if (chunk !== undefined && chunk.offset + chunk.data.length <= position) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #next(position: number): OutputPart | undefined {
    if (position < this.#start) return { kind: "gap", offset: position, lostBytes: this.#start - position };
    const chunk = this.#chunks[this.#indexOf(position)];
    if (chunk === undefined || chunk.offset > position) return undefined;
    return { kind: chunk.kind, offset: position, data: chunk.data.subarray(position - chunk.offset) };
  }

  #take(position: number): void {
    if (position <= this.#taken) return;
    this.#taken = position;
    this.#trim();
    this.#wake();
  }

  /** Drops the oldest chunks. */
  #trim(): void {
    for (let [oldest] = this.#chunks; oldest !== undefined; [oldest] = this.#chunks) {
      const next = oldest.offset + oldest.data.length;
      if (this.#end - next < this.#maxBytes && this.#chunks.length <= maxChunks) {
        this.#cut(oldest);
        return;
      }
      if (this.#whenFull === "wait" && next > this.#taken) return;
      this.#chunks.shift();
      this.#start = next;
    }
  }

  /** A single chunk above the limit keeps its end. */
  #cut(oldest: StoredChunk): void {
    const excess = this.#end - this.#start - this.#maxBytes;
    if (excess <= 0 || this.#whenFull === "wait") return;
    const data = oldest.data.subarray(excess);
    this.#chunks[0] = { ...oldest, offset: oldest.offset + excess, data, storage: data };
    this.#start = oldest.offset + excess;
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => this.#wakes.push(resolve));
  }

  #wake(): void {
    const wakes = this.#wakes;
    this.#wakes = [];
    for (const wake of wakes) wake();
  }
}
