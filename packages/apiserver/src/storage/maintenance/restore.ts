import { mkdirSync } from "node:fs";
import { type Inspection, inspectFolder } from "../integrity/inspection.ts";
import { StorageError } from "../storage-error.ts";
import { type BackupSummary, readBackup } from "./backup-file.ts";
import type { ProgressOptions } from "./backup.ts";
import { hasData, replaceData } from "./replace-folder.ts";
import { withLockedFolder } from "./running-folder.ts";

/** Options of {@link restoreStorage}. */
export interface RestoreOptions extends ProgressOptions {
  /** Replace existing data, which is kept in a directory alongside it. Default false. */
  readonly force?: boolean;
}

/** What {@link restoreStorage} did. */
export interface RestoreResult {
  readonly objects: number;
  /** The resourceVersion of the backup. */
  readonly backupRevision: number;
  /** The resourceVersion at which the directory continues. */
  readonly revision: number;
  /** Where the replaced data is. */
  readonly replaced?: string;
}

/**
 * How far resourceVersions move forward if the last issued one is not known, so that none is issued twice: more than a server can issue
 * between a backup and a loss.
 */
export const unknownRevisions = 1_000_000_000;

/**
 * Restores a backup into an empty directory or, with `force`, in place of existing data. ResourceVersions continue after the last issued one,
 * and watches from older ones expire.
 *
 * **Errors**: rejects with a `StorageError`: `InUse` if a server has the directory open, `NotEmpty` without `force` if it has data, `Damaged` if
 * the backup is damaged; the directory is then unchanged.
 */
export async function restoreStorage(dir: string, path: string, options: RestoreOptions = {}): Promise<RestoreResult> {
  const summary: BackupSummary = readBackup(path, () => undefined);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return withLockedFolder(dir, async () => {
    const isReplacing = hasData(dir);
    if (isReplacing && options.force !== true) {
      throw new StorageError("NotEmpty", `${dir} has data: restore into an empty directory, or replace the data with --force`);
    }
    const known = isReplacing ? newestRevision(inspectFolder(dir)) : undefined;
    const revision = nextRevision(known, summary.revision);
    const replaced = await replaceData(dir, path, revision, options);
    return {
      objects: summary.objects,
      backupRevision: summary.revision,
      revision,
      ...(replaced === undefined ? {} : { replaced }),
    };
  });
}

/** The last issued revision; undefined if it cannot be known because of damage. */
export function newestRevision({ highWaterMark, revision, journal, faults }: Inspection): number | undefined {
  const newest = Math.max(highWaterMark ?? 0, revision, journal.at(-1)?.record.batch.position.revision ?? 0);
  return highWaterMark === undefined && faults.length > 0 ? undefined : newest;
}

/** The revision at which replaced data continues. `seen` is the newest revision in the new data. */
export function nextRevision(known: number | undefined, seen: number): number {
  return known === undefined ? seen + unknownRevisions : Math.max(known, seen) + 1;
}
