/** What a server has opened so far, to be closed in reverse order. */
export class Closers {
  readonly #closers: (() => void | Promise<void>)[] = [];
  #closing: Promise<void> | undefined;

  add(close: () => void | Promise<void>): void {
    this.#closers.push(close);
  }

  /** Adds a resource and returns it. */
  use<T extends { close(): void | Promise<void> }>(resource: T): T {
    this.add(() => resource.close());
    return resource;
  }

  /**
   * Closes everything. If something fails to close, closes the rest and rejects with the first error. Later calls return the same promise, so
   * that nothing is closed before what was opened after it.
   */
  close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  /** Closes everything after a failed start, and ignores further errors: the first one says why. */
  async abandon(): Promise<void> {
    await this.close().catch(() => undefined);
  }

  async #closeAll(): Promise<void> {
    const errors: unknown[] = [];
    for (let closer = this.#closers.pop(); closer !== undefined; closer = this.#closers.pop()) {
      try {
        await closer();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }
}
