/** A named database of the store. */
export type TableName = "objects" | "log" | "meta";

/** An entry of a table. */
export interface ScannedEntry {
  readonly table: TableName;
  /** A revision in `log`, otherwise a string. */
  readonly key: string | number;
  readonly value: Buffer;
  /** Offset of the page in the file. */
  readonly offset: number;
}

/** Damage in the database file. */
export interface DatabaseFault {
  readonly offset: number;
  readonly message: string;
  /** The keys that cannot be reached because of it: from the first (inclusive) to the second (exclusive). */
  readonly lost?: { readonly table: string; readonly from?: string; readonly to?: string };
}

/** Receives what a scan finds. */
export interface ScanSink {
  entry(entry: ScannedEntry): void;
  fault(fault: DatabaseFault): void;
}

/** What a scan covered. */
export interface ScanSummary {
  /** Undefined if no meta page is readable. */
  readonly txnid: number | undefined;
  /** Whether some leaf pages were skipped. */
  readonly isSampled: boolean;
  /** Bytes of pages in use. */
  readonly usedBytes: number;
}

/** Options of `scanDatabase`. */
export interface ScanOptions {
  /** Check at most this many leaf pages. Default: all. */
  readonly maxLeafPages?: number;
  /** Receives entries of intact leaf pages that damage has cut off from their tree. Their table is not known. */
  readonly onOrphan?: (orphan: { readonly key: string; readonly value: Buffer }) => void;
}
