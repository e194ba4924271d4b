import { closeSync, fstatSync, fsync, openSync, readSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { decodeJournalRecord, encodeJournalRecord } from "../journal/journal-record.ts";
import { StorageError } from "../storage-error.ts";

/** An object in a backup: its key and its record (revision and bytes). */
export interface BackupEntry {
  readonly key: string;
  readonly value: Uint8Array;
}

/** What a backup contains. */
export interface BackupSummary {
  /** The resourceVersion whose state it is. */
  readonly revision: number;
  readonly objects: number;
}

/** Bytes of objects per record. */
const recordBytes = 256 * 1024;
const flushToDisk = promisify(fsync);
const signature = "KSBACKUP1\n";

/**
 * Writes a backup: a signature, then records as in the journal, each with a checksum, the last one without objects and with their number as
 * `dropAfter`. The file appears under its name only when it is complete.
 */
export class BackupWriter {
  readonly #path: string;
  readonly #temporary: string;
  readonly #file: number;
  #entries: BackupEntry[] = [];
  #bytes = 0;
  #objects = 0;
  #isOpen = true;

  constructor(path: string) {
    this.#path = path;
    this.#temporary = `${path}.partial`;
    this.#file = openSync(this.#temporary, "w", 0o600);
    writeSync(this.#file, signature);
  }

  add(entry: BackupEntry): void {
    this.#entries.push(entry);
    this.#objects += 1;
    this.#bytes += entry.value.length;
    if (this.#bytes >= recordBytes) this.#flush(0);
  }

  /** Completes the file as the state of `revision`. */
  async finish(revision: number): Promise<BackupSummary> {
    if (this.#entries.length > 0) this.#flush(0);
    this.#write(revision, this.#objects);
    await flushToDisk(this.#file);
    closeSync(this.#file);
    this.#isOpen = false;
    renameSync(this.#temporary, this.#path);
    const folder = openSync(dirname(this.#path), "r");
    await flushToDisk(folder).finally(() => closeSync(folder));
    return { revision, objects: this.#objects };
  }

  /** Removes the incomplete file. */
  discard(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeSync(this.#file);
    rmSync(this.#temporary, { force: true });
  }

  #flush(count: number): void {
    this.#write(0, count);
    this.#entries = [];
    this.#bytes = 0;
  }

  #write(revision: number, count: number): void {
    const position = { revision, compacted: revision };
    const record = encodeJournalRecord({ base: 0, batch: { objects: this.#entries, log: [], position, dropAfter: count } });
    for (let done = 0; done < record.length; ) done += writeSync(this.#file, record, done);
  }
}

/**
 * Reads a backup and calls `onEntries` for each part of it.
 *
 * **Errors**: throws a {@link StorageError} `Damaged` with the offset if the file is not a complete, unaltered backup.
 */
export function readBackup(path: string, onEntries: (entries: readonly BackupEntry[]) => void): BackupSummary {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    if (readAt(file, 0, signature.length).toString("latin1") !== signature)
      throw damaged(path, 0, "it is not a backup of this storage");
    let objects = 0;
    for (let offset = signature.length; offset < size; ) {
      const head = readAt(file, offset, 12);
      const length = head.length === 12 ? 12 + head.readUInt32BE(8) : 12;
      const found = decodeJournalRecord(readAt(file, offset, Math.min(length, size - offset)), 0);
      if (found === undefined) throw damaged(path, offset, "the checksum does not match");
      const { batch } = found.record;
      offset += found.end;
      if (batch.position.revision > 0) {
        if (batch.dropAfter !== objects || offset !== size) throw damaged(path, offset, "objects are missing");
        return { revision: batch.position.revision, objects };
      }
      objects += batch.objects.length;
      onEntries(batch.objects.flatMap(({ key, value }) => (value === undefined ? [] : [{ key, value }])));
    }
    throw damaged(path, size, "the file is cut off");
  } finally {
    closeSync(file);
  }
}

function readAt(file: number, offset: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  return buffer.subarray(0, readSync(file, buffer, 0, length, offset));
}

function damaged(path: string, offset: number, why: string): StorageError {
  return new StorageError("Damaged", `backup ${path} is damaged at offset ${offset}: ${why}`);
}
