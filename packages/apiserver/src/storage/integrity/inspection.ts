import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { initialPosition, type Position } from "../database/engine.ts";
import { scanDatabase } from "../database/database-scan.ts";
import type { ScannedEntry, TableName } from "../database/scan-result.ts";
import { isSealed, unsealValue } from "../database/sealed-value.ts";
import { journalFileNames } from "../journal/journal.ts";
import { scanJournal, type ScannedRecord } from "../journal/journal-scan.ts";
import { highWaterMarkName, readHighWaterMark } from "./high-water-mark.ts";

/** The LMDB file of the database. */
export const databaseName = "data.mdb";

/** Damage in a data directory. */
export interface StorageFault {
  /** The file's name in the directory. */
  readonly file: string;
  readonly offset?: number;
  readonly message: string;
}

/** What the database contains. */
export interface DatabaseInspection {
  readonly position: Position;
  /** 2: values have checksums, and the journal and the high-water mark must exist. 1: an older data directory. */
  readonly format: 1 | 2;
  readonly objects: number;
  readonly events: number;
  /** Whether some pages were skipped because the file is large. */
  readonly isSampled: boolean;
  readonly fileBytes: number;
  readonly usedBytes: number;
}

/** The state of a data directory. */
export interface Inspection {
  /** Whether nothing has been stored yet. */
  readonly isNew: boolean;
  readonly faults: readonly StorageFault[];
  /** Undefined if there is no readable database. */
  readonly database: DatabaseInspection | undefined;
  /** Intact journal records that are newer than the database, in order of revision. */
  readonly journal: readonly ScannedRecord[];
  /** The newest acknowledged revision, if it is known. */
  readonly highWaterMark: number | undefined;
  /** The newest revision that can be reached from the database without a gap. */
  readonly revision: number;
}

/** Options of {@link inspectFolder}. */
export interface InspectOptions {
  /** Check at most this many leaf pages of the database. Default: all. */
  readonly maxLeafPages?: number;
  /** Receives all complete journal records, leftovers included, before the first entry of the database. */
  readonly onJournal?: (records: readonly ScannedRecord[]) => void;
  /** Receives every intact entry of the database, its value without checksum: events, then meta data, then objects. */
  readonly onEntry?: (entry: ScannedEntry) => void;
  /** Receives intact objects that damage has cut off from the database, possibly several revisions of one and deleted ones. */
  readonly onOrphan?: (orphan: { readonly key: string; readonly value: Buffer }) => void;
  /** Receives key ranges that cannot be read because of damage. */
  readonly onLost?: (lost: { readonly table: string; readonly from?: string; readonly to?: string }) => void;
}

/**
 * Checks a data directory without opening it: page structure, checksums, that no journal record is missing, and that everything acknowledged
 * is there. It never crashes, whatever the files contain. A torn tail of the journal, as a crash leaves it, is not damage.
 */
export function inspectFolder(dir: string, options: InspectOptions = {}): Inspection {
  const faults: StorageFault[] = [];
  const hasMark = existsSync(join(dir, highWaterMarkName));
  const highWaterMark = readHighWaterMark(dir);
  const journalFiles = journalFileNames.filter((name) => existsSync(join(dir, name)));
  const records = journalFiles.flatMap((name) => scanJournal(name, readFileSync(join(dir, name))));
  options.onJournal?.(records);
  const database = inspectDatabase(dir, faults, options);
  const isMarked = hasMark || database?.format === 2;
  // The high-water mark is written first in a new directory, so other files without a readable one have lost their content.
  const hasOtherFiles = journalFiles.length > 0 || existsSync(join(dir, databaseName));
  const isUnwritten = highWaterMark === undefined ? !hasOtherFiles : highWaterMark <= 1;
  const isNew = database === undefined && faults.length === 0 && records.length === 0 && isUnwritten;
  if (isNew) return { isNew, faults, database, journal: [], highWaterMark, revision: initialPosition.revision };
  if (database === undefined && faults.length === 0)
    faults.push({
      file: databaseName,
      message: existsSync(join(dir, databaseName)) ? "the file is empty" : "the file is missing",
    });
  if (isMarked) {
    for (const name of journalFileNames) {
      if (!journalFiles.includes(name)) faults.push({ file: name, message: "the file is missing" });
    }
    if (highWaterMark === undefined) {
      faults.push({ file: highWaterMarkName, message: hasMark ? "the file is unreadable" : "the file is missing" });
    }
  }
  const from = database?.position.revision ?? initialPosition.revision;
  const journal = records
    .filter(({ record }) => record.batch.position.revision > from)
    .sort((a, b) => a.record.batch.position.revision - b.record.batch.position.revision);
  const { revision, gaps } = followChain(from, journal, records);
  if (database !== undefined) faults.push(...gaps);
  const newest = journal.at(-1)?.record.batch.position.revision ?? from;
  if (highWaterMark !== undefined && highWaterMark > newest && database !== undefined) {
    faults.push(missingTail(newest, highWaterMark, journal.at(-1)));
  }
  return { isNew, faults, database, journal, highWaterMark, revision };
}

/** Follows journal records from the database's revision. `all` includes leftovers. */
function followChain(
  from: number,
  journal: readonly ScannedRecord[],
  all: readonly ScannedRecord[],
): { readonly revision: number; readonly gaps: readonly StorageFault[] } {
  const gaps: StorageFault[] = [];
  let revision = from;
  let reached = from;
  for (const { file, offset, record } of journal) {
    if (record.base > reached) {
      const ends = all.filter((each) => each.file === file && each.end <= offset).map(({ end }) => end);
      gaps.push({
        file,
        offset: Math.max(0, ...ends),
        message: `revisions ${reached + 1} to ${record.base} are missing; intact records follow at offset ${offset}`,
      });
    }
    reached = record.batch.position.revision;
    if (gaps.length === 0) revision = reached;
  }
  return { revision, gaps };
}

function missingTail(newest: number, highWaterMark: number, last: ScannedRecord | undefined): StorageFault {
  const range =
    newest + 1 === highWaterMark ? `revision ${highWaterMark} is` : `revisions ${newest + 1} to ${highWaterMark} are`;
  const message = `${range} missing, although acknowledged`;
  return last === undefined ? { file: journalFileNames[0], message } : { file: last.file, offset: last.end, message };
}

/** Collects what the database contains. Undefined if it is missing or empty, or if nothing of it is readable. */
function inspectDatabase(dir: string, faults: StorageFault[], options: InspectOptions): DatabaseInspection | undefined {
  const path = join(dir, databaseName);
  if (!existsSync(path) || statSync(path).size === 0) return undefined;
  const counts: Record<TableName, number> = { objects: 0, log: 0, meta: 0 };
  const found: { position: Position; format: 1 | 2 } = { position: initialPosition, format: 1 };
  const unsealed: ScannedEntry[] = [];
  const fault = (offset: number, message: string): void => void faults.push({ file: databaseName, offset, message });
  const summary = scanDatabase(
    path,
    {
      entry(entry) {
        counts[entry.table] += 1;
        if (!isSealed(entry.value)) {
          if (entry.table === "meta") found.position = positionOf(entry) ?? found.position;
          else unsealed.push(entry);
          options.onEntry?.(entry);
          return;
        }
        const value = unsealValue(String(entry.key), entry.value);
        if (value === undefined) {
          fault(entry.offset, `${describe(entry)} is damaged: its checksum does not match`);
          options.onLost?.({ table: entry.table, from: String(entry.key), to: `${entry.key}\u0000` });
          return;
        }
        if (entry.table === "meta" && entry.key === "format") found.format = 2;
        if (entry.table === "meta") found.position = positionOf({ ...entry, value }) ?? found.position;
        options.onEntry?.({ ...entry, value });
      },
      fault({ offset, message, lost }) {
        fault(offset, message);
        if (lost !== undefined) options.onLost?.(lost);
      },
    },
    {
      ...(options.maxLeafPages === undefined ? {} : { maxLeafPages: options.maxLeafPages }),
      ...(options.onOrphan === undefined ? {} : { onOrphan: unsealedOrphans(options.onOrphan) }),
    },
  );
  if (found.format === 2)
    for (const entry of unsealed) fault(entry.offset, `${describe(entry)} is damaged: it has no checksum`);
  if (summary.txnid === undefined) return undefined;
  const { isSampled, usedBytes } = summary;
  return {
    ...found,
    objects: counts.objects,
    events: counts.log,
    isSampled,
    usedBytes,
    fileBytes: statSync(path).size,
  };
}

type OnOrphan = NonNullable<InspectOptions["onOrphan"]>;

/** Passes on orphans whose checksum matches. */
function unsealedOrphans(onOrphan: OnOrphan): OnOrphan {
  return ({ key, value }) => {
    const bytes = unsealValue(key, value);
    if (bytes !== undefined && key !== "position" && key !== "format") onOrphan({ key, value: bytes });
  };
}

/** Names an entry in messages. */
function describe({ table, key }: ScannedEntry): string {
  if (table === "objects") return `object ${String(key)}`;
  return table === "log" ? `the event of revision ${String(key)}` : `the entry ${String(key)}`;
}

/** The position in a meta entry; undefined if it is another entry or unreadable. */
export function positionOf({ key, value }: ScannedEntry): Position | undefined {
  if (key !== "position") return undefined;
  try {
    const parsed: unknown = JSON.parse(value.toString());
    if (typeof parsed !== "object" || parsed === null || !("revision" in parsed) || !("compacted" in parsed)) return undefined;
    const { revision, compacted } = parsed;
    return typeof revision === "number" && typeof compacted === "number" ? { revision, compacted } : undefined;
  } catch {
    return undefined;
  }
}
