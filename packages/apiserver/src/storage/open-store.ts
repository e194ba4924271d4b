import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { Engine } from "./database/engine.ts";
import { LmdbEngine } from "./database/lmdb-engine.ts";
import { SpaceReserve } from "./database/space-reserve.ts";
import { lockFolder } from "./folder-lock.ts";
import { damageError } from "./integrity/damage-report.ts";
import { HighWaterMark } from "./integrity/high-water-mark.ts";
import { inspectFolder } from "./integrity/inspection.ts";
import { Journal } from "./journal/journal.ts";
import { JournaledEngine } from "./journal/journaled-engine.ts";
import { ReservedEngine } from "./journal/reserved-engine.ts";
import { ControlFolder } from "./maintenance/control-folder.ts";
import { onlineHandlers } from "./maintenance/online.ts";
import { type StoreOptions, TransactionStore } from "./objects/transaction-store.ts";
import { isOutOfSpace, isStorageError } from "./storage-error.ts";
import type { Store } from "./store.ts";

/** What {@link openStore} takes. */
export interface OpenStoreOptions extends StoreOptions {
  /** Created if missing. Owned by one process at a time. */
  readonly dir: string;
  readonly clock: Clock;
  /** False: acknowledged writes survive SIGKILL but not power loss. For tests. Default true. */
  readonly sync?: boolean;
}

/** Leaf pages of the database to check at the start: all of 128 MiB, a sample of more. */
const maxCheckedPages = 32_768;

/** A store that owns its directory until it is closed. */
class FolderStore extends TransactionStore {
  readonly #control: ControlFolder | undefined;
  #release: (() => Promise<void>) | undefined;

  constructor(engine: Engine, options: StoreOptions, control: ControlFolder | undefined, release: () => Promise<void>) {
    super(engine, options);
    this.#control = control;
    this.#release = release;
  }

  override async close(): Promise<void> {
    const release = this.#release;
    this.#release = undefined;
    if (release !== undefined) await this.#control?.close();
    await super.close();
    await release?.();
  }
}

/**
 * Opens the store in a directory and recovers what the last process left, however it ended.
 *
 * **Errors**: rejects with a `StorageError`: `InUse` if a living process has the directory open, `Damaged` if stored data is missing or
 * altered. Also rejects if the directory cannot be read or written.
 */
export async function openStore(options: OpenStoreOptions): Promise<Store> {
  const unlock = lockFolder(options.dir);
  try {
    return await openLocked(options, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function openLocked(options: OpenStoreOptions, unlock: () => void): Promise<Store> {
  const { dir, clock, sync = true } = options;
  const inspection = inspectFolder(dir, { maxLeafPages: maxCheckedPages });
  if (inspection.faults.length > 0) throw damageError(dir, inspection);
  // No other process has the database open, so LMDB's table of readers is stale, and a damaged one could crash LMDB.
  rmSync(join(dir, "lock.mdb"), { force: true });
  const openMark = (): HighWaterMark =>
    new HighWaterMark(dir, { revision: inspection.revision, isFlushed: sync, now: () => clock.monotonic() });
  // A sealed database requires a mark and a journal, so they come first in a new directory.
  let mark = inspection.isNew || inspection.database?.format === 2 ? openMark() : undefined;
  const journal = new Journal({ dir, isFlushed: sync });
  const database = new LmdbEngine({ dir, sync });
  try {
    if (!database.isSealed) await database.seal(() => void (mark ??= openMark()));
  } catch (error) {
    // Without space for checksums, an older directory stays as it is until the next start.
    if (!isStorageError(error, "StorageFull") && !isOutOfSpace(error)) {
      await Promise.all([database.close(), journal.close(), mark?.close()]);
      throw error;
    }
  }
  const journaled = new JournaledEngine({ database, journal, onDurable: (revision) => mark?.raise(revision) });
  const engine: Engine = sync ? new ReservedEngine(journaled, new SpaceReserve(dir)) : journaled;
  const control = ControlFolder.open(dir, onlineHandlers(engine));
  return new FolderStore(engine, options, control, async () => {
    await mark?.close();
    unlock();
  });
}
