/** What a server has opened so far, to be closed in reverse order. */
export class Closers {
  readonly #closers: (() => void | Promise<void>)[] = [];

  add(close: () => void | Promise<void>): void {
    this.#closers.push(close);
  }

  /** Adds a resource and returns it. */
  use<T extends { close(): void | Promise<void> }>(resource: T): T {
    this.add(() => resource.close());
    return resource;
  }

  /** Closes everything. If something fails to close, closes the rest and rejects with the first error. Later calls do nothing. */
  async close(): Promise<void> {
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
