import type { Clock } from "@keelson/api-machinery/time";
import { openJournal } from "./journal.ts";
import { createJournaledEngine } from "./journaled-engine.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";
import { lockFolder } from "./process-lock.ts";
import type { Store } from "./store.ts";
import { createStore, type StoreOptions } from "./transaction-store.ts";

/** What {@link openStore} takes. */
export interface OpenStoreOptions extends StoreOptions {
  /** Made when missing. Owned by one process at a time. */
  readonly dir: string;
  readonly clock: Clock;
  /** False: acknowledged writes survive SIGKILL but not power loss. For tests. Default true. */
  readonly sync?: boolean;
}

/**
 * Opens the store in a folder, taking up where the last process left, however it ended.
 *
 * **Errors**: rejects when a living process has the folder open, or when it can't be read or written.
 */
export async function openStore(options: OpenStoreOptions): Promise<Store> {
  const unlock = lockFolder(options.dir);
  try {
    const { dir, sync = true } = options;
    const journal = openJournal({ dir, isFlushed: sync });
    const engine = createJournaledEngine({ database: openLmdbEngine({ dir, sync }), journal });
    const store = createStore(engine, options);
    return {
      get revision() {
        return store.revision;
      },
      get: store.get,
      list: store.list,
      pin: store.pin,
      pinAt: store.pinAt,
      write: store.write,
      watch: store.watch,
      async close() {
        await store.close();
        unlock();
      },
    };
  } catch (error) {
    unlock();
    throw error;
  }
}
