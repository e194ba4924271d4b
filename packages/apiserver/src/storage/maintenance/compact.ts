import { mkdtempSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { LmdbEngine } from "../database/lmdb-engine.ts";
import { damageError } from "../integrity/damage-report.ts";
import { databaseName, inspectFolder } from "../integrity/inspection.ts";
import { flushFolder } from "./replace-folder.ts";
import { requireFolder, withLockedFolder } from "./running-folder.ts";

/** What {@link compactStorage} did. */
export interface CompactResult {
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/**
 * Rewrites the database without free pages, which returns their space to the file system. Nothing else changes.
 *
 * **Errors**: rejects with a `StorageError`: `InUse` if a server has the directory open, `Damaged` if it is damaged, `Missing` if it does not
 * exist.
 */
export async function compactStorage(dir: string): Promise<CompactResult> {
  requireFolder(dir);
  return withLockedFolder(dir, async () => {
    const inspection = inspectFolder(dir);
    if (inspection.faults.length > 0) throw damageError(dir, inspection);
    if (inspection.database === undefined) return { bytesBefore: 0, bytesAfter: 0 };
    const path = join(dir, databaseName);
    const temporary = mkdtempSync(join(dirname(dir), `${basename(dir)}.compact-`));
    try {
      const database = new LmdbEngine({ dir, sync: true });
      const copy = join(temporary, databaseName);
      try {
        await database.copyCompacted(temporary);
      } finally {
        await database.close();
      }
      const bytesBefore = statSync(path).size;
      const bytesAfter = statSync(copy).size;
      renameSync(copy, path);
      flushFolder(dir);
      return { bytesBefore, bytesAfter };
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  });
}
