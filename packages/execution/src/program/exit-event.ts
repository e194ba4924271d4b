import { createDeferred } from "@keelson/api-machinery/deferred";
import type { Exited } from "../driver.ts";

/** The end of one program. */
export class ExitEvent {
  readonly #exited = createDeferred<Exited>();
  readonly #listeners = new Set<() => void>();
  #hasHappened = false;

  /** Resolves when the program has terminated. */
  get promise(): Promise<Exited> {
    return this.#exited.promise;
  }

  /** Reports the end to everyone who waits for it. */
  resolve(exited: Exited): void {
    this.#hasHappened = true;
    this.#exited.resolve(exited);
    for (const listener of this.#listeners) queueMicrotask(listener);
    this.#listeners.clear();
  }

  /** See `Program.onExit`. */
  on(listener: () => void): () => void {
    // The same function may be subscribed twice.
    const own = (): void => listener();
    if (this.#hasHappened) queueMicrotask(own);
    else this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
}
