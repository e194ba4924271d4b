import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { livingOwner } from "../folder-lock.ts";
import { damageError } from "../integrity/damage-report.ts";
import { type InspectOptions, type Inspection, inspectFolder, positionOf } from "../integrity/inspection.ts";
import type { ScannedRecord } from "../journal/journal-scan.ts";
import { decodeRecord } from "../objects/log-entry.ts";
import { StorageError } from "../storage-error.ts";
import { type BackupEntry, type BackupSummary, BackupWriter } from "./backup-file.ts";
import { requestFromOwner } from "./control-folder.ts";
import { requireFolder, withLockedFolder } from "./running-folder.ts";

/** Options of long operations. */
export interface ProgressOptions {
  /** Receives the number of objects done so far. */
  readonly onProgress?: (objects: number) => void;
}

/** How often progress is reported. */
const progressStep = 1_000;

/**
 * Writes the state of one resourceVersion to a new file, even while a server runs on the directory and writes. Events are not part of a
 * backup.
 *
 * **Errors**: rejects with a `StorageError`: `Damaged` if the directory is damaged, `NotEmpty` if the file exists, `Missing` if the directory
 * does not exist.
 */
export async function backupStorage(dir: string, path: string, options: ProgressOptions = {}): Promise<BackupSummary> {
  requireFolder(dir);
  if (existsSync(path)) throw new StorageError("NotEmpty", `${path} already exists: choose another file`);
  const owner = livingOwner(dir);
  if (owner !== undefined)
    return (await requestFromOwner(dir, owner, { kind: "backup", path: resolve(path) })) as BackupSummary;
  return withLockedFolder(dir, async () => {
    const writer = new BackupWriter(path);
    try {
      const inspection = writeState(dir, writer, options);
      if (inspection.faults.length > 0) throw damageError(dir, inspection);
      return await writer.finish(inspection.revision);
    } catch (error) {
      writer.discard();
      throw error;
    }
  });
}

/** Writes all intact objects of a directory: those of the database, changed by the journal. */
export function writeState(
  dir: string,
  writer: BackupWriter,
  options: ProgressOptions & Pick<InspectOptions, "onLost"> = {},
): Inspection {
  let count = 0;
  const add = (key: string, value: Uint8Array): void => {
    writer.add({ key, value });
    count += 1;
    if (count % progressStep === 0) options.onProgress?.(count);
  };
  const journal = new JournalChanges();
  const orphans = new Map<string, Buffer>();
  const seen = new Set<string>();
  const inspection = inspectFolder(dir, {
    ...(options.onLost === undefined ? {} : { onLost: options.onLost }),
    onJournal: (records) => journal.read(records),
    onEntry(entry) {
      const { table, key, value } = entry;
      if (table === "meta") journal.after(positionOf(entry)?.revision ?? 0);
      if (table !== "objects" || typeof key !== "string") return;
      seen.add(key);
      if (!journal.supersedes(key, value)) add(key, value);
    },
    onOrphan({ key, value }) {
      // Without its tree, the newest revision of a key is the best guess.
      const known = orphans.get(key);
      if (known === undefined || revisionOf(known) < revisionOf(value)) orphans.set(key, value);
    },
  });
  for (const [key, value] of orphans) {
    if (seen.has(key)) continue;
    seen.add(key);
    if (!journal.supersedes(key, value)) add(key, value);
  }
  for (const { key, value } of journal.puts()) add(key, value);
  return inspection;
}

/** The newest change of a key, by key. */
type Changes = ReadonlyMap<string, { readonly value: Uint8Array | undefined; readonly revision: number }>;

/** The newest change of each key in the journal that the database does not have. */
class JournalChanges {
  #records: readonly ScannedRecord[] = [];
  #position = 0;
  /** Keys whose newest state the database has. */
  readonly #superseded = new Set<string>();
  #changes: Changes | undefined;

  read(records: readonly ScannedRecord[]): void {
    this.#records = records.toSorted((a, b) => a.record.batch.position.revision - b.record.batch.position.revision);
  }

  /** Ignores records up to `revision`, which the database has. */
  after(revision: number): void {
    this.#position = Math.max(this.#position, revision);
  }

  /** Whether the journal has a newer state of a key than `value`. */
  supersedes(key: string, value: Uint8Array): boolean {
    const change = this.#changesByKey().get(key);
    if (change === undefined) return false;
    if (change.revision > revisionOf(value)) return true;
    this.#superseded.add(key);
    return false;
  }

  /** The keys whose newest state the journal has. */
  *puts(): Generator<BackupEntry> {
    for (const [key, { value }] of this.#changesByKey()) {
      if (value !== undefined && !this.#superseded.has(key)) yield { key, value };
    }
  }

  #changesByKey(): Changes {
    this.#changes ??= new Map(
      this.#records
        .filter(({ record }) => record.batch.position.revision > this.#position)
        .flatMap(({ record }) =>
          record.batch.objects.map(({ key, value }) => {
            const revision = value === undefined ? record.batch.position.revision : revisionOf(value);
            return [key, { value, revision }] as const;
          }),
        ),
    );
    return this.#changes;
  }
}

/** The revision of a stored object. */
function revisionOf(value: Uint8Array): number {
  return decodeRecord(value).revision;
}
