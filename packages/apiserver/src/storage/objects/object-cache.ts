import type { StoredObject } from "../store.ts";

/**
 * Recently used objects, so that readers share one parsed object. Bounded by the bytes of their JSON; a limit of 0 caches nothing.
 *
 * Two generations: used objects move to the young one. When the young one reaches half the limit it becomes the old one, and the
 * previous old one is dropped whole. An object unused for two generations is dropped, and no long Map is ever reordered, which is what makes
 * exact least-recently-used caches slow.
 */
export class ObjectCache {
  readonly #maxGenerationBytes: number;
  #young = new Map<string, StoredObject>();
  #old = new Map<string, StoredObject>();
  #youngBytes = 0;

  constructor(maxBytes: number) {
    this.#maxGenerationBytes = maxBytes / 2;
  }

  get(key: string): StoredObject | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(old);
    return old;
  }

  set(stored: StoredObject): void {
    const bytes = stored.bytes.length;
    const replaced = this.#young.get(stored.key);
    if (replaced !== undefined) this.#youngBytes -= replaced.bytes.length;
    if (bytes > this.#maxGenerationBytes) {
      this.#young.delete(stored.key);
      this.#old.delete(stored.key);
      return;
    }
    if (this.#youngBytes + bytes > this.#maxGenerationBytes) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#youngBytes = 0;
    }
    this.#young.set(stored.key, stored);
    this.#youngBytes += bytes;
  }

  delete(key: string): void {
    const young = this.#young.get(key);
    if (young !== undefined) this.#youngBytes -= young.bytes.length;
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
