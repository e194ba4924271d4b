import {
  close,
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  readSync,
  write,
  writeSync,
} from "node:fs";
import { join } from "node:path";
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
  /** False: what is there is read, nothing is made or written, and `capacity` is 0. Default true. */
  readonly isWritten?: boolean;
  /** Of one of the two files. Default 1 MiB. */
  readonly fileBytes?: number;
  /** Answers how many bytes were written. Default: pwrite(2). */
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
const pwrite: WriteAt = async (file, bytes, position) => {
  const { bytesWritten } = await writeAsync(file, bytes, 0, bytes.length, position);
  if (!isFlushedByWrite) await flush(file);
  return bytesWritten;
};

/** Opens the journal in a folder, made where there is none. */
export function openJournal(options: JournalOptions): Journal {
  const { dir, fileBytes = 1024 * 1024, writeAt = pwrite } = options;
  const records: JournalRecord[] = [];
  const paths = ["journal-0", "journal-1"].map((name) => join(dir, name));
  if (options.isWritten === false) return readOnly(paths, records);
  const files = paths.map((path) => openFile(path, fileBytes, records));
  // After power loss the files have to be found again.
  const folder = openSync(dir, constants.O_RDONLY);
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
  records.sort(byRevision);
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

function readOnly(paths: readonly string[], records: JournalRecord[]): Journal {
  for (const path of paths.filter((each) => existsSync(each))) readRecords(readFileSync(path), records);
  records.sort(byRevision);
  return {
    records,
    capacity: 0,
    hasRoom: () => false,
    append: () => Promise.reject(new Error("this journal is only read")),
    close: () => Promise.resolve(),
  };
}

function byRevision(a: JournalRecord, b: JournalRecord): number {
  return a.batch.position.revision - b.batch.position.revision;
}

/** Bytes of a record's beginning without which it is none. */
const blank = 4;

/** Opens one file, reads its records and gives it its length, as far as there is space. */
function openFile(path: string, fileBytes: number, records: JournalRecord[]): JournalFile {
  // O_DSYNC: a write is on the disk when it is answered.
  const file = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_DSYNC, 0o600);
  const { size } = fstatSync(file);
  const content = Buffer.alloc(size);
  readSync(file, content, 0, size, 0);
  const { end, revision } = readRecords(content, records);
  return { file, capacity: extend(file, size, fileBytes), end, revision };
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
