import { existsSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * The data folder of a server and its replacement. An agent may end at any moment, so data that is incomplete is marked before it
 * changes, and complete data is replaced by renaming.
 */
export class DataFolder {
  readonly path: string;
  /** Where a copy is prepared. */
  readonly next: string;
  readonly #home: string;
  readonly #old: string;
  readonly #marker: string;

  /** `home` is the folder of the data folder. */
  constructor(home: string) {
    this.#home = home;
    this.path = join(home, "data");
    this.next = join(home, "new");
    this.#old = join(home, "old");
    this.#marker = join(home, "rewinding");
  }

  /** Whether there is complete data. */
  get hasData(): boolean {
    return !this.isIncomplete && existsSync(join(this.path, "PG_VERSION"));
  }

  /** Whether a rewind began that has not been completed: the server must neither start nor be initialized. */
  get isIncomplete(): boolean {
    return existsSync(this.#marker);
  }

  /** Completes or reverts what an earlier agent did not complete. */
  async recover(): Promise<void> {
    await rm(this.next, { recursive: true, force: true });
    if (!existsSync(this.path) && existsSync(this.#old)) await rename(this.#old, this.path);
    await rm(this.#old, { recursive: true, force: true });
  }

  /** Replaces the data by {@link next}. */
  async replace(): Promise<void> {
    await rm(this.#old, { recursive: true, force: true });
    if (existsSync(this.path)) await rename(this.path, this.#old);
    await rename(this.next, this.path);
    await this.#sync();
    await this.markComplete();
    await rm(this.#old, { recursive: true, force: true });
  }

  async markIncomplete(): Promise<void> {
    const file = await open(this.#marker, "w");
    await file.sync();
    await file.close();
    await this.#sync();
  }

  async markComplete(): Promise<void> {
    await rm(this.#marker, { force: true });
  }

  async #sync(): Promise<void> {
    const folder = await open(this.#home, "r");
    await folder.sync();
    await folder.close();
  }
}
