import { existsSync, readFileSync } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * The data directory of a server and its replacement. An agent may end at any moment, so data that is incomplete is marked before it
 * changes, and complete data is replaced by renaming.
 */
export class DataFolder {
  readonly path: string;
  /** Where a copy is prepared. */
  readonly next: string;
  /** Where a snapshot is loaded and recovered. */
  readonly incoming: string;
  /** Where an upgrade is prepared. */
  readonly upgrade: string;
  readonly #home: string;
  readonly #old: string;
  readonly #marker: string;

  /** `home` is the directory of the data directory. */
  constructor(home: string) {
    this.#home = home;
    this.path = join(home, "data");
    this.next = join(home, "new");
    this.incoming = join(home, "incoming");
    this.upgrade = join(home, "upgrade");
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

  /** Major version of the data; empty without data. */
  get version(): string {
    try {
      return readFileSync(join(this.path, "PG_VERSION"), "utf8").trim();
    } catch {
      return "";
    }
  }

  /** Completes or reverts what an earlier agent did not complete. */
  async recover(): Promise<void> {
    for (const folder of [this.next, this.incoming, this.upgrade]) await rm(folder, { recursive: true, force: true });
    if (!existsSync(this.path) && existsSync(this.#old)) await rename(this.#old, this.path);
    await rm(this.#old, { recursive: true, force: true });
  }

  /** Replaces the data by a directory: {@link next} or {@link incoming}. If that fails, the data is kept. */
  async replace(by: string = this.next): Promise<void> {
    // Data that an earlier attempt could not restore is not deleted.
    if (!existsSync(this.path) && existsSync(this.#old)) await rename(this.#old, this.path);
    await rm(this.#old, { recursive: true, force: true });
    const hasOld = existsSync(this.path);
    if (hasOld) await rename(this.path, this.#old);
    try {
      await rename(by, this.path);
    } catch (error) {
      if (hasOld) await rename(this.#old, this.path);
      throw error;
    }
    await this.#sync();
    await this.markComplete();
    // The new data is in place. What is left of the old data is deleted by the next replacement or agent.
    await rm(this.#old, { recursive: true, force: true }).catch(() => undefined);
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

  #sync(): Promise<void> {
    return syncFolder(this.#home);
  }
}

/** Makes the names in a directory durable. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
