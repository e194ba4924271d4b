import type { Batch, Engine, KeyValue, LogRecord, PinnedEngineState, Position, State } from "../database/engine.ts";
import { isOutOfSpace, StorageError, storageFull } from "../storage-error.ts";
import type { Journal } from "./journal.ts";
import { encodeJournalRecord } from "./journal-record.ts";
import { RecentWrites } from "./recent-writes.ts";

/** What {@link JournaledEngine} takes. */
export interface JournaledEngineOptions {
  /** Commits durably on its own. */
  readonly database: Engine;
  readonly journal: Journal;
  /** Bytes to gather before they are flushed to the database. Default 256 KiB. */
  readonly gatherBytes?: number;
  /** Called with the newest revision when a commit is durable, before it is acknowledged. */
  readonly onDurable?: (revision: number) => void;
}

/** Puts and removals per database commit: handing them over takes about a millisecond. */
const maxFlushWrites = 600;
/** The database may refuse longer keys (its limit is 1,978 bytes, and it doubles some). */
const maxKeyBytes = 900;

/**
 * An {@link Engine} that acknowledges a commit once a journal has it, which is one flushed write, and moves many commits at a time to
 * its database, which takes several. What only the journal has is kept in memory too, and is recovered after a crash. Commits
 * that do not fit the journal, or that the database might refuse, go to the database directly.
 *
 * While the database cannot take more (a full disk), commits are rejected; each one retries.
 *
 * **Errors**: the constructor throws a {@link StorageError} `Damaged` if the journal does not follow the database, because acknowledged
 * commits are missing.
 */
export class JournaledEngine implements Engine {
  readonly #database: Engine;
  readonly #journal: Journal;
  readonly #gatherBytes: number;
  readonly #onDurable: (revision: number) => void;
  readonly #recent = new RecentWrites();
  readonly #state: State;
  #position: Position;
  /** Why the last flush failed. */
  #failure: { readonly cause: unknown } | undefined;
  #flushing: Promise<void> | undefined;

  constructor(options: JournaledEngineOptions) {
    const { database, journal, gatherBytes = 256 * 1024, onDurable = () => undefined } = options;
    this.#database = database;
    this.#journal = journal;
    this.#gatherBytes = gatherBytes;
    this.#onDurable = onDurable;
    this.#state = this.#recent.over(database);
    this.#position = database.position;
    for (const { base, batch } of journal.records) {
      if (batch.position.revision <= this.#position.revision) continue;
      if (base !== this.#position.revision) {
        throw new StorageError(
          "Damaged",
          `the storage is damaged: the journal continues after revision ${base}, the database ends at ${this.#position.revision}`,
        );
      }
      this.#recent.add(batch);
      this.#position = batch.position;
    }
  }

  get position(): Position {
    return this.#position;
  }

  get(key: string): Uint8Array | undefined {
    return this.#state.get(key);
  }

  has(key: string): boolean {
    return this.#state.has(key);
  }

  range(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#state.range(start, end);
  }

  borrow(start: string, end: string | undefined): Iterable<KeyValue> {
    return this.#state.borrow(start, end);
  }

  count(start: string, end: string | undefined): Iterable<number> {
    return this.#state.count(start, end);
  }

  log(after: number, newestFirst?: boolean, before?: number): Iterable<LogRecord> {
    return this.#state.log(after, newestFirst, before);
  }

  pin(): PinnedEngineState {
    const held = this.#database.pin();
    const state = this.#recent.copy().over(held);
    return {
      get: (key) => state.get(key),
      has: (key) => state.has(key),
      range: (start, end) => state.range(start, end),
      borrow: (start, end) => state.borrow(start, end),
      count: (start, end) => state.count(start, end),
      log: (after, newestFirst, before) => state.log(after, newestFirst, before),
      release: () => held.release(),
    };
  }

  async commit(batch: Batch): Promise<void> {
    if (this.#failure !== undefined) await this.#drain();
    const isJournaled = batch.objects.every(({ key }) => Buffer.byteLength(key) <= maxKeyBytes);
    const record = isJournaled ? encodeJournalRecord({ base: this.#position.revision, batch }) : undefined;
    if (record === undefined || record.length > this.#journal.capacity) {
      await this.#drain();
      await this.#database.commit(batch);
      this.#acknowledge(batch.position);
      return;
    }
    while (!this.#journal.hasRoom(record.length, this.#database.position.revision)) {
      await this.#flush();
      if (this.#failure !== undefined) throw this.#failure.cause;
    }
    try {
      await this.#journal.append(record, batch.position.revision);
    } catch (error) {
      throw isOutOfSpace(error) ? storageFull(error) : error;
    }
    this.#recent.add(batch);
    this.#acknowledge(batch.position);
    if (this.#recent.bytes >= this.#gatherBytes) void this.#flush();
  }

  #acknowledge(position: Position): void {
    this.#position = position;
    this.#onDurable(position.revision);
  }

  async close(): Promise<void> {
    // What the database cannot take stays in the journal.
    await this.#drain().catch(() => undefined);
    await this.#database.close();
    await this.#journal.close();
  }

  /** Moves everything to the database, or throws why it cannot. */
  async #drain(): Promise<void> {
    while (!this.#recent.isEmpty) {
      await this.#flush();
      if (this.#failure !== undefined) throw this.#failure.cause;
    }
  }

  #flush(): Promise<void> {
    this.#flushing ??= this.#moveToDatabase().then(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async #moveToDatabase(): Promise<void> {
    // Bounded, so that it ends while new commits arrive.
    const upTo = this.#position.revision;
    try {
      while (this.#database.position.revision < upTo) {
        const next = this.#recent.oldest(maxFlushWrites);
        if (next === undefined) break;
        await this.#database.commit(next.batch);
        this.#recent.drop(next.count);
      }
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = { cause };
    }
  }
}
