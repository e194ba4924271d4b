import { livingOwner } from "../folder-lock.ts";
import { describeIntact } from "../integrity/damage-report.ts";
import { databaseName, inspectFolder, type StorageFault } from "../integrity/inspection.ts";
import { requestFromOwner } from "./control-folder.ts";
import type { OnlineReport } from "./online.ts";
import { requireFolder } from "./running-folder.ts";

/** What {@link verifyStorage} found. */
export interface StorageReport {
  readonly dir: string;
  readonly isHealthy: boolean;
  /** The process that has the directory open. */
  readonly owner?: number;
  /** The newest resourceVersion that can be recovered without a gap. */
  readonly revision: number;
  /** The newest resourceVersion that was acknowledged, if it is known. */
  readonly highWaterMark?: number;
  /** Objects and events in the database; while no server runs, the journal may have newer ones. */
  readonly objects: number;
  readonly events: number;
  /** Commits in the journal that the database does not have yet. Absent while a server runs, as the following. */
  readonly journaledCommits?: number;
  readonly databaseBytes?: number;
  /** Bytes in use; the rest is free and can be removed by compaction. */
  readonly usedBytes?: number;
  readonly faults: readonly StorageFault[];
  /** What is intact, in one line. */
  readonly intact: string;
}

/**
 * Checks every page and checksum of a data directory. While a server runs on it, the server reads all of its objects and events instead.
 *
 * **Errors**: rejects with a `StorageError` `Missing` if the directory does not exist.
 */
export async function verifyStorage(dir: string): Promise<StorageReport> {
  requireFolder(dir);
  const owner = livingOwner(dir);
  if (owner !== undefined) return verifyOnline(dir, owner);
  const inspection = inspectFolder(dir);
  const { database, highWaterMark, revision, journal, faults } = inspection;
  return {
    dir,
    isHealthy: faults.length === 0,
    revision,
    ...(highWaterMark === undefined ? {} : { highWaterMark }),
    objects: database?.objects ?? 0,
    events: database?.events ?? 0,
    journaledCommits: journal.length,
    databaseBytes: database?.fileBytes ?? 0,
    usedBytes: database?.usedBytes ?? 0,
    faults,
    intact: describeIntact(inspection),
  };
}

async function verifyOnline(dir: string, owner: number): Promise<StorageReport> {
  const { revision, objects, events, faults } = (await requestFromOwner(dir, owner, { kind: "verify" })) as OnlineReport;
  return {
    dir,
    isHealthy: faults.length === 0,
    owner,
    revision,
    objects,
    events,
    faults: faults.map((message) => ({ file: databaseName, message })),
    intact: `${objects} objects and ${events} events up to revision ${revision}`,
  };
}
