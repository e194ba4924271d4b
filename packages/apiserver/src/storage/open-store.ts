import type { Clock } from "@keelson/api-machinery/time";
import { LmdbEngine } from "./database/lmdb-engine.ts";
import { lockFolder } from "./folder-lock.ts";
import { Journal } from "./journal/journal.ts";
import { JournaledEngine } from "./journal/journaled-engine.ts";
import { type StoreOptions, TransactionStore } from "./objects/transaction-store.ts";
import type { Store } from "./store.ts";

/** What {@link openStore} takes. */
export interface OpenStoreOptions extends StoreOptions {
  /** Created if missing. Owned by one process at a time. */
  readonly dir: string;
  readonly clock: Clock;
  /** False: acknowledged writes survive SIGKILL but not power loss. For tests. Default true. */
  readonly sync?: boolean;
}

/** A store that owns its folder until it is closed. */
class FolderStore extends TransactionStore {
  #unlock: (() => void) | undefined;

  constructor(engine: JournaledEngine, options: StoreOptions, unlock: () => void) {
    super(engine, options);
    this.#unlock = unlock;
  }

  override async close(): Promise<void> {
    await super.close();
    this.#unlock?.();
    this.#unlock = undefined;
  }
}

/**
 * Opens the store in a folder and recovers what the last process left, however it ended.
 *
 * **Errors**: rejects with a `StorageError`: `InUse` if a living process has the folder open, `Damaged` if stored data is missing or
 * altered. Also rejects if the folder cannot be read or written.
 */
export async function openStore(options: OpenStoreOptions): Promise<Store> {
  const unlock = lockFolder(options.dir);
  try {
    const { dir, sync = true } = options;
    const journal = new Journal({ dir, isFlushed: sync });
    const engine = new JournaledEngine({ database: new LmdbEngine({ dir, sync }), journal });
    return new FolderStore(engine, options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}
