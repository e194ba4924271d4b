/**
 * Limits the calls of each caller whose bodies have not arrived. The others wait, so that a caller who sends its bodies slowly, or never
 * completes them, keeps little memory and does not delay other callers.
 */
export class BodyLimit {
  readonly #max: number;
  readonly #callers = new Map<string, { open: number; readonly waiting: (() => void)[] }>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Resolves when the body of a call may be read. The result must be called once it has arrived, or never will. */
  async enter(name: string): Promise<() => void> {
    const caller = this.#callers.get(name) ?? { open: 0, waiting: [] };
    this.#callers.set(name, caller);
    if (caller.open < this.#max) caller.open += 1;
    // Takes the place of the call that leaves.
    else await new Promise<void>((resolve) => caller.waiting.push(resolve));
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const next = caller.waiting.shift();
      if (next !== undefined) next();
      else if ((caller.open -= 1) === 0) this.#callers.delete(name);
    };
  }
}
