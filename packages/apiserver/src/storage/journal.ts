import { close, closeSync, constants, fdatasync, fstatSync, fsyncSync, openSync, readSync, write, writeSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { decodeJournalRecord, type JournalRecord } from "./journal-record.ts";

/**
 * Commits on their way into the database, in two files of a fixed length that are written by turns: the one may be written anew when the
 * database has all that is in it. Their blocks are there beforehand, so that a record is one flush and needs no space.
 */
export interface Journal {
  /** What was found when it was opened, in order of revision. */
  readonly records: readonly JournalRecord[];
  /** The longest record that it can take; 0 where there was no space for its files. */
  readonly capacity: number;
  /** Whether `append` has room for `length` bytes, now that the database has all up to revision `flushed`. */
  hasRoom(length: number, flushed: number): boolean;
  /** Writes a record up to `revision`. Resolves when it is on the disk; rejects when it is not, then it is as if never written. One at a time. */
  append(bytes: Uint8Array, revision: number): Promise<void>;
  close(): Promise<void>;
}

/** What the functions of `node:fs` do here: tests break it. */
export type WriteAt = (file: number, bytes: Uint8Array, position: number) => Promise<number>;

/** What {@link openJournal} takes. */
export interface JournalOptions {
  readonly dir: string;
  /**
   * False: a record survives the end of the process, but not power loss: it is written in one go, without waiting for the disk, and
   * space is taken as it is needed. Default true.
   */
  readonly isFlushed?: boolean;
  /** Of one of the two files. Default 1 MiB. */
  readonly fileBytes?: number;
  /** Answers how many bytes were written. Default: pwrite(2), and when it is answered they are on the disk, if that is asked for. */
  readonly writeAt?: WriteAt;
}

interface JournalFile {
  readonly file: number;
  readonly capacity: number;
  end: number;
  /** Of its last record. */
  revision: number;
}

const writeAsync = promisify(write);
const flush = promisify(fdatasync);
/** Where a write by O_DSYNC is on the disk when it is answered. Elsewhere it may be in the disk's own memory. */
const isFlushedByWrite = process.platform === "linux";
const writeThrough: WriteAt = async (file, bytes, position) => {
  const { bytesWritten } = await writeAsync(file, bytes, 0, bytes.length, position);
  if (!isFlushedByWrite) await flush(file);
  return bytesWritten;
};
/** Into the memory of the operating system, which takes less time than to have another thread do it. */
const writeToMemory: WriteAt = async (file, bytes, position) => {
  const written = writeSync(file, bytes, 0, bytes.length, position);
  // Else who writes again as soon as it is answered would keep timers and connections waiting for ever.
  await nextTurn();
  return written;
};

/** Opens the journal in a folder, made where there is none. */
export function openJournal(options: JournalOptions): Journal {
  const { dir, fileBytes = 1024 * 1024, isFlushed = true, writeAt = isFlushed ? writeThrough : writeToMemory } = options;
  const records: JournalRecord[] = [];
  const files = ["journal-0", "journal-1"].map((name) => openFile(join(dir, name), { fileBytes, isFlushed }, records));
  // After power loss the files have to be found again.
  if (isFlushed) flushFolder(dir);
  records.sort((a, b) => a.batch.position.revision - b.batch.position.revision);
  let [active, other] = files as [JournalFile, JournalFile];
  if (other.revision > active.revision) [active, other] = [other, active];

  const writeAll = async (file: number, bytes: Uint8Array, position: number): Promise<void> => {
    for (let done = 0; done < bytes.length; ) done += await writeAt(file, bytes.subarray(done), position + done);
  };
  return {
    records,
    capacity: Math.min(active.capacity, other.capacity),
    hasRoom(length, flushed) {
      if (active.end + length <= active.capacity) return true;
      if (other.revision > flushed || length > other.capacity) return false;
      [active, other] = [other, active];
      active.end = 0;
      return true;
    },
    async append(bytes, revision) {
      const { file, end } = active;
      try {
        await writeAll(file, bytes, end);
      } catch (error) {
        // It may be there whole, its flush alone having failed: nobody is to find it.
        await writeAll(file, Buffer.alloc(Math.min(bytes.length, blank)), end).catch(() => undefined);
        throw error;
      }
      active.end = end + bytes.length;
      active.revision = revision;
    },
    async close() {
      await Promise.all(files.map(({ file }) => promisify(close)(file)));
    },
  };
}

function flushFolder(dir: string): void {
  const folder = openSync(dir, constants.O_RDONLY);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

/** Bytes of a record's beginning without which it is none. */
const blank = 4;

/** Opens one file, reads its records and, where it is flushed, gives it its length, as far as there is space. */
function openFile(
  path: string,
  { fileBytes, isFlushed }: { readonly fileBytes: number; readonly isFlushed: boolean },
  records: JournalRecord[],
): JournalFile {
  // O_DSYNC: a write is on the disk when it is answered.
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT | (isFlushed ? constants.O_DSYNC : 0), 0o600);
  const { size } = fstatSync(file);
  const content = Buffer.alloc(size);
  readSync(file, content, 0, size, 0);
  const { end, revision } = readRecords(content, records);
  return { file, capacity: isFlushed ? extend(file, size, fileBytes) : fileBytes, end, revision };
}

/** Adds what a file holds to `records`. Answers where that ends, and its last revision. */
function readRecords(content: Buffer, records: JournalRecord[]): { readonly end: number; readonly revision: number } {
  let end = 0;
  let revision = 0;
  for (let found = decodeJournalRecord(content, 0); found !== undefined; found = decodeJournalRecord(content, end)) {
    // What follows a newer record is left over from before the file was written anew.
    if (found.record.batch.position.revision < revision) break;
    records.push(found.record);
    ({ end } = found);
    revision = found.record.batch.position.revision;
  }
  return { end, revision };
}

/** Fills the file up with zeros. Answers how long it is then. */
function extend(file: number, size: number, wanted: number): number {
  if (size >= wanted) return size;
  try {
    const zeros = Buffer.alloc(wanted - size);
    for (let done = 0; done < zeros.length; ) done += writeSync(file, zeros, done, zeros.length - done, size + done);
    return wanted;
  } catch (error) {
    // No space: commits go to the database alone until the server is started again.
    if (isNodeError(error) && ["ENOSPC", "EDQUOT", "EFBIG"].includes(error.code ?? "")) return size;
    throw error;
  }
}

function isNodeError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "code" in error;
}
