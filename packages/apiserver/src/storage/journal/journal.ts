import { closeSync, constants, fsyncSync, openSync } from "node:fs";
import { join } from "node:path";
import { JournalFile, type WriteAt, writeThrough, writeToMemory } from "./journal-file.ts";
import type { JournalRecord } from "./journal-record.ts";

/** What {@link Journal} takes. */
export interface JournalOptions {
  readonly dir: string;
  /**
   * False: a record survives the end of the process but not power loss. It is written without waiting for the disk, and space is
   * allocated as needed. Default true.
   */
  readonly isFlushed?: boolean;
  /** Size of each of the two files. Default 1 MiB. */
  readonly fileBytes?: number;
  /** Default: pwrite(2), flushed if `isFlushed`. */
  readonly writeAt?: WriteAt;
}

/** The names of the journal's files. */
export const journalFileNames: readonly [string, string] = ["journal-0", "journal-1"];

/**
 * Commits on their way into the database, in two files of fixed length that are written in turn: one may be rewritten once the database
 * has everything in it. Their blocks are allocated in advance, so that appending a record is one flush and needs no space.
 */
export class Journal {
  /** All complete records found when it was opened, in order of revision, including leftovers that the database has. */
  readonly records: readonly JournalRecord[];
  #active: JournalFile;
  #other: JournalFile;

  /** Opens the journal in a directory and creates missing files. */
  constructor(options: JournalOptions) {
    const { dir, fileBytes = 1024 * 1024, isFlushed = true, writeAt = isFlushed ? writeThrough : writeToMemory } = options;
    const open = (name: string): JournalFile => new JournalFile(join(dir, name), { fileBytes, isFlushed, writeAt });
    const [first, second] = [open(journalFileNames[0]), open(journalFileNames[1])];
    // Directory entries have to survive power loss too.
    if (isFlushed) flushFolder(dir);
    this.records = [...first.records, ...second.records].sort((a, b) => a.batch.position.revision - b.batch.position.revision);
    [this.#active, this.#other] = second.revision > first.revision ? [second, first] : [first, second];
  }

  /** The size of the largest record that fits; 0 if there was no space for the files. */
  get capacity(): number {
    return Math.min(this.#active.capacity, this.#other.capacity);
  }

  /** Whether `append` has room for `length` bytes if the database has everything up to revision `flushed`. May switch files. */
  hasRoom(length: number, flushed: number): boolean {
    if (this.#active.hasRoom(length)) return true;
    if (this.#other.revision > flushed || length > this.#other.capacity) return false;
    [this.#active, this.#other] = [this.#other, this.#active];
    this.#active.rewind();
    return true;
  }

  /**
   * Writes a record up to `revision` and resolves when it is on disk. If it rejects, recovery will not find the record. Callers must not
   * overlap calls.
   */
  async append(bytes: Uint8Array, revision: number): Promise<void> {
    await this.#active.append(bytes, revision);
  }

  async close(): Promise<void> {
    await Promise.all([this.#active.close(), this.#other.close()]);
  }
}

function flushFolder(dir: string): void {
  const folder = openSync(dir, constants.O_RDONLY);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
