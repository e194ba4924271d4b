/** Work that begins in a turn without waiting: a slice takes a few milliseconds. */
const maxImmediate = 4;

/**
 * Turns of the event loop, shared by all long reads. `setImmediate` alone would run a slice of every read in the same turn, which takes
 * seconds with hundreds of watches.
 */
export class SharedTurns {
  readonly #waiting: (() => void)[] = [];
  /** Reads that began in this turn. */
  #begun = 0;
  #isScheduled = false;

  /** Resolves in a later turn of the event loop, which no other waiting read gets. First come, first served. */
  next(): Promise<void> {
    this.#schedule();
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  /** Returns undefined if the turn has time for another read. Otherwise as {@link next}. */
  enter(): Promise<void> | undefined {
    if (this.#begun >= maxImmediate) return this.next();
    this.#begun += 1;
    this.#schedule();
    return undefined;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#begin());
  }

  #begin(): void {
    this.#isScheduled = false;
    this.#begun = 0;
    const resolve = this.#waiting.shift();
    if (resolve === undefined) return;
    // The slice runs in a microtask of this turn. The rest waits for the turns after it.
    this.#begun = 1;
    this.#schedule();
    resolve();
  }
}
