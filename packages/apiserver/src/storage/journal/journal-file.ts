import { close, constants, fdatasync, fstatSync, openSync, readSync, write, writeSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { promisify } from "node:util";
import { isOutOfSpace } from "../storage-error.ts";
import type { JournalRecord } from "./journal-record.ts";
import { scanJournal, type ScannedRecord } from "./journal-scan.ts";

/** Writes bytes at a position of an open file and returns how many were written. Tests inject failures here. */
export type WriteAt = (file: number, bytes: Uint8Array, position: number) => Promise<number>;

const writeAsync = promisify(write);
const flush = promisify(fdatasync);
/** On Linux, a write with O_DSYNC is on disk when it returns. Elsewhere it may be in the disk's cache. */
const isFlushedByWrite = process.platform === "linux";

/** pwrite(2) that returns when the bytes are on disk. */
export const writeThrough: WriteAt = async (file, bytes, position) => {
  const { bytesWritten } = await writeAsync(file, bytes, 0, bytes.length, position);
  if (!isFlushedByWrite) await flush(file);
  return bytesWritten;
};

/** pwrite(2) to the page cache, which takes less time than a thread switch. */
export const writeToMemory: WriteAt = async (file, bytes, position) => {
  const written = writeSync(file, bytes, 0, bytes.length, position);
  // Otherwise a caller that writes again immediately would starve timers and connections.
  await nextTurn();
  return written;
};

/** How a {@link JournalFile} is opened. */
export interface JournalFileOptions {
  readonly fileBytes: number;
  readonly isFlushed: boolean;
  readonly writeAt: WriteAt;
}

/** The first bytes of a record; zeroing them invalidates it. */
const blankBytes = 4;

/** One of the two files of a journal. */
export class JournalFile {
  /** All complete records found when it was opened, including leftovers of an earlier use of the file. */
  readonly records: readonly JournalRecord[];
  /** Bytes that it can hold. */
  readonly capacity: number;
  readonly #file: number;
  readonly #writeAt: WriteAt;
  #end: number;
  #revision: number;

  /** Opens the file, reads its records and, if it is flushed, extends it to its full length as far as space allows. */
  constructor(path: string, { fileBytes, isFlushed, writeAt }: JournalFileOptions) {
    // O_DSYNC: a write is on disk when it returns.
    this.#file = openSync(path, constants.O_RDWR | constants.O_CREAT | (isFlushed ? constants.O_DSYNC : 0), 0o600);
    this.#writeAt = writeAt;
    const { size } = fstatSync(this.#file);
    const content = Buffer.alloc(size);
    readSync(this.#file, content, 0, size, 0);
    const found = scanJournal(path, content);
    this.records = found.map(({ record }) => record);
    // The file is rewritten from its beginning, so the newest record is the last one of the current use.
    const newest = found.reduce<ScannedRecord | undefined>((a, b) => (revisionOf(a) > revisionOf(b) ? a : b), undefined);
    this.#end = newest?.end ?? 0;
    this.#revision = revisionOf(newest);
    this.capacity = isFlushed ? extend(this.#file, size, fileBytes) : fileBytes;
  }

  /** The revision of the last record; 0 if there is none. */
  get revision(): number {
    return this.#revision;
  }

  hasRoom(length: number): boolean {
    return this.#end + length <= this.capacity;
  }

  /** Starts over at the beginning. */
  rewind(): void {
    this.#end = 0;
  }

  /** Appends a record up to `revision`. If that fails, the record is invalidated. */
  async append(bytes: Uint8Array, revision: number): Promise<void> {
    try {
      await this.#writeAll(bytes, this.#end);
    } catch (error) {
      // The record may be complete, with only its flush failed: recovery must not find it.
      await this.#writeAll(Buffer.alloc(Math.min(bytes.length, blankBytes)), this.#end).catch(() => undefined);
      throw error;
    }
    this.#end += bytes.length;
    this.#revision = revision;
  }

  async close(): Promise<void> {
    await promisify(close)(this.#file);
  }

  async #writeAll(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += await this.#writeAt(this.#file, bytes.subarray(done), position + done);
    }
  }
}

function revisionOf(found: ScannedRecord | undefined): number {
  return found?.record.batch.position.revision ?? 0;
}

/** Fills the file with zeros up to `wanted` bytes and returns its length, which is smaller if there is no space. */
function extend(file: number, size: number, wanted: number): number {
  if (size >= wanted) return size;
  try {
    const zeros = Buffer.alloc(wanted - size);
    for (let done = 0; done < zeros.length; ) done += writeSync(file, zeros, done, zeros.length - done, size + done);
    return wanted;
  } catch (error) {
    // Without space, commits go to the database directly until the next start.
    if (isOutOfSpace(error)) return size;
    throw error;
  }
}
