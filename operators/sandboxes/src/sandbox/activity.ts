import type { Clock } from "@keelson/api-machinery/time";

/**
 * What uses the sandboxes of an agent: commands alongside their programs, and connections to their exposed ports. A new agent counts from its
 * start, so that a sandbox is never taken for idle too early.
 */
export class Activity {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #uses = new Map<string, { count: number; idleSinceMs: number }>();

  /** `onChange` is called when a sandbox becomes idle or busy. */
  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Registers a use of a sandbox. Returns a function that ends it, once. */
  begin(sandboxId: string): () => void {
    const use = this.#use(sandboxId);
    use.count += 1;
    if (use.count === 1) this.#onChange();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      use.count -= 1;
      if (use.count > 0) return;
      use.idleSinceMs = this.#clock.now();
      this.#onChange();
    };
  }

  /** Restarts the idle time of a sandbox. */
  touch(sandboxId: string): void {
    this.#use(sandboxId).idleSinceMs = this.#clock.now();
  }

  /** Since when nothing uses a sandbox, in milliseconds since the epoch; undefined while something does. */
  idleSince(sandboxId: string): number | undefined {
    const { count, idleSinceMs } = this.#use(sandboxId);
    return count > 0 ? undefined : idleSinceMs;
  }

  forget(sandboxId: string): void {
    this.#uses.delete(sandboxId);
  }

  #use(sandboxId: string): { count: number; idleSinceMs: number } {
    const present = this.#uses.get(sandboxId);
    if (present !== undefined) return present;
    const use = { count: 0, idleSinceMs: this.#clock.now() };
    this.#uses.set(sandboxId, use);
    return use;
  }
}
