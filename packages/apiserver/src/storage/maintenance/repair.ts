import { mkdtempSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Inspection, StorageFault } from "../integrity/inspection.ts";
import { type BackupEntry, BackupWriter } from "./backup-file.ts";
import { type ProgressOptions, writeState } from "./backup.ts";
import { replaceData } from "./replace-folder.ts";
import { newestRevision, nextRevision } from "./restore.ts";
import { requireFolder, withLockedFolder } from "./running-folder.ts";

/** Data that could not be kept. */
export interface LostData {
  /** A single object. */
  readonly object?: string;
  /** Objects from this key (inclusive) to `to` (exclusive), as far as they are not intact elsewhere. */
  readonly from?: string;
  readonly to?: string;
  /** Changes of these revisions. */
  readonly revisions?: readonly [number, number];
}

/** What {@link repairStorage} did. */
export interface RepairResult {
  /** False if there was nothing to repair; the directory is then unchanged. */
  readonly isRepaired: boolean;
  /** Objects kept. */
  readonly objects: number;
  /** The resourceVersion at which the directory continues. */
  readonly revision: number;
  readonly faults: readonly StorageFault[];
  readonly lost: readonly LostData[];
  /** Where the damaged data is. */
  readonly replaced?: string;
}

/** A {@link BackupWriter} that remembers the newest revision. */
class RepairWriter extends BackupWriter {
  newest = 0;
  count = 0;
  readonly keys = new Set<string>();

  override add(entry: BackupEntry): void {
    super.add(entry);
    this.count += 1;
    this.keys.add(entry.key);
    this.newest = Math.max(this.newest, Buffer.from(entry.value).readDoubleBE(0));
  }
}

/**
 * Replaces damaged data with everything of it that is intact, and lists the rest. Intact journal records are applied even after missing ones.
 * The damaged files are kept in a directory alongside it. ResourceVersions continue after the last issued one, and watches from older ones expire.
 *
 * **Errors**: rejects with a `StorageError`: `InUse` if a server has the directory open, `Missing` if the directory does not exist.
 */
export async function repairStorage(dir: string, options: ProgressOptions = {}): Promise<RepairResult> {
  requireFolder(dir);
  return withLockedFolder(dir, async () => {
    const temporary = mkdtempSync(join(dirname(dir), `${basename(dir)}.repair-`));
    try {
      const path = join(temporary, "intact");
      const lost: LostData[] = [];
      const writer = new RepairWriter(path);
      const onLost = ({ table, from, to }: { table: string; from?: string; to?: string }): void => {
        if (table === "objects" || table === "directory") lost.push(rangeOf(from, to));
      };
      const inspection = writeState(dir, writer, { ...options, onLost });
      const { faults } = inspection;
      if (faults.length === 0) {
        writer.discard();
        return { isRepaired: false, objects: writer.count, revision: inspection.revision, faults, lost: [] };
      }
      const seen = Math.max(writer.newest, inspection.revision);
      const revision = nextRevision(newestRevision(inspection), seen);
      await writer.finish(seen);
      const replaced = await replaceData(dir, path, revision, options);
      return {
        isRepaired: true,
        objects: writer.count,
        revision,
        faults,
        lost: [
          ...lost.filter(({ object }) => object === undefined || !writer.keys.has(object)),
          ...missingRevisions(inspection),
        ],
        ...(replaced === undefined ? {} : { replaced }),
      };
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  });
}

/** A single key is the range up to the next possible key. */
function rangeOf(from: string | undefined, to: string | undefined): LostData {
  if (from !== undefined && to === `${from}\u0000`) return { object: from };
  return { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
}

/** Revisions between the database and the last acknowledged one that no journal record has. */
function missingRevisions({ database, journal, highWaterMark }: Inspection): readonly LostData[] {
  const missing: LostData[] = [];
  let reached = database?.position.revision;
  for (const { record } of journal) {
    if (reached !== undefined && record.base > reached) missing.push({ revisions: [reached + 1, record.base] });
    reached = record.batch.position.revision;
  }
  if (reached !== undefined && highWaterMark !== undefined && highWaterMark > reached) {
    missing.push({ revisions: [reached + 1, highWaterMark] });
  }
  return missing;
}
