import { type Engine, StorageFullError } from "./engine.ts";
import type { Journal } from "./journal.ts";
import { encodeJournalRecord } from "./journal-record.ts";
import { RecentWrites } from "./recent-writes.ts";

/** What {@link createJournaledEngine} takes. */
export interface JournaledEngineOptions {
  /** Commits durably by itself. */
  readonly database: Engine;
  readonly journal: Journal;
  /** Bytes that gather before they go into the database. Default 256 KiB. */
  readonly gatherBytes?: number;
}

/** Puts and removals of one commit of the database: handing them over takes a millisecond or so. */
const flushWork = 600;
/** Longer keys the database may refuse (its limit is 1,978 bytes, and it doubles some). */
const longestKeyBytes = 900;

/**
 * An {@link Engine} that acknowledges a commit when a journal has it, which is one flush of one write, and brings many at a time into its
 * database, which is several. What the journal has and the database has not is in memory too, and put into the database anew
 * after a crash. What does not fit, and what the database might refuse, goes into the database right away.
 *
 * While the database can't take more (a full disk), commits are refused; each tries it again.
 *
 * **Errors**: throws where the journal does not follow the database: then acknowledged commits are missing.
 */
export function createJournaledEngine({ database, journal, gatherBytes = 256 * 1024 }: JournaledEngineOptions): Engine {
  const recent = new RecentWrites();
  let { position } = database;
  for (const { base, batch } of journal.records) {
    if (batch.position.revision <= position.revision) continue;
    if (base !== position.revision)
      throw new Error(
        `the storage is damaged: its journal goes on at revision ${base}, its database ends at ${position.revision}`,
      );
    recent.add(batch);
    ({ position } = batch);
  }

  /** Why the database did not take what it was given last. */
  let failure: { readonly cause: unknown } | undefined;
  const bring = async (): Promise<void> => {
    // What comes meanwhile gathers anew, so that this ends.
    const upTo = position.revision;
    try {
      while (database.position.revision < upTo) {
        const next = recent.oldest(flushWork);
        if (next === undefined) break;
        await database.commit(next.batch);
        recent.drop(next.count);
      }
      failure = undefined;
    } catch (cause) {
      failure = { cause };
    }
  };
  let flushing: Promise<void> | undefined;
  const flush = (): Promise<void> => {
    flushing ??= bring().then(() => {
      flushing = undefined;
    });
    return flushing;
  };
  /** Brings all into the database, or throws why it can't. */
  const drain = async (): Promise<void> => {
    while (!recent.isEmpty) {
      await flush();
      if (failure !== undefined) throw failure.cause;
    }
  };

  return {
    get position() {
      return position;
    },
    ...recent.over(database),
    pin() {
      const held = database.pin();
      return { ...recent.copy().over(held), release: held.release };
    },
    async commit(batch) {
      if (failure !== undefined) await drain();
      const isPlain = batch.objects.every(({ key }) => Buffer.byteLength(key) <= longestKeyBytes);
      const record = isPlain ? encodeJournalRecord({ base: position.revision, batch }) : undefined;
      if (record === undefined || record.length > journal.capacity) {
        await drain();
        await database.commit(batch);
        ({ position } = batch);
        return;
      }
      while (!journal.hasRoom(record.length, database.position.revision)) {
        await flush();
        if (failure !== undefined) throw failure.cause;
      }
      try {
        await journal.append(record, batch.position.revision);
      } catch (error) {
        throw isFull(error) ? new StorageFullError("no space is left for the data folder", { cause: error }) : error;
      }
      recent.add(batch);
      ({ position } = batch);
      if (recent.bytes >= gatherBytes) void flush();
    },
    async close() {
      // What the database can't take is in the journal.
      await drain().catch(() => undefined);
      await database.close();
      await journal.close();
    },
  };
}

function isFull(error: unknown): boolean {
  return error instanceof Error && "code" in error && ["ENOSPC", "EDQUOT", "EFBIG"].includes(String(error.code));
}
