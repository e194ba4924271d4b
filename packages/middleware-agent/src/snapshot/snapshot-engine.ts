import type { Recovery } from "../log/log-engine.ts";

/** What a snapshot contains, as the program's own checker counts it. */
export interface SnapshotContent {
  /** Number of keys, or of another unit of the program: {@link SnapshotSummary.unit}. */
  readonly keys: number;
  /** Keys with a time to live, which may have expired when the snapshot is loaded. */
  readonly expiringKeys: number;
}

/** The end of a snapshot. */
export interface SnapshotSummary extends SnapshotContent {
  readonly sizeBytes: number;
  /** Format of the data, such as `rdb`. */
  readonly format: string;
  /** Version of the program that wrote it. */
  readonly programVersion: string;
  /** What `keys` counts, in plural, such as `files`. Default: keys. */
  readonly unit?: string;
  /** Name of the first file of the log with which the data can be recovered to a later state. Undefined: there is none. */
  readonly logStart?: string;
}

/** Result of a check or of a load. */
export type SnapshotOutcome = ({ readonly ok: true } & SnapshotContent) | { readonly ok: false; readonly error: string };

/** Options of {@link SnapshotEngine.load}. */
export interface LoadOptions {
  /** Log to apply to the snapshot, for engines with a {@link LogEngine}. Default: the data is that of the snapshot. */
  readonly recovery?: Recovery;
  /** Ends the load when its caller has disconnected. */
  readonly signal?: AbortSignal;
}

/** The snapshots of a program. All data is streamed: memory use does not depend on its size. */
export interface SnapshotEngine {
  /**
   * Streams a consistent snapshot: its bytes, then its summary. The snapshot is checked while it is sent.
   *
   * **Errors**: an `AgentError` with code `SnapshotFailed`.
   */
  snapshot(): AsyncIterable<Uint8Array | SnapshotSummary>;
  /** Checks that the program could load a snapshot, without touching its data. */
  check(data: AsyncIterable<Uint8Array>): Promise<SnapshotOutcome>;
  /**
   * Replaces the data of this primary by a snapshot of `sizeBytes`. The program keeps its data until all bytes have arrived. Rejects if
   * the outcome is not known, and with the signal's reason if it aborts; the program is then a primary again. Meanwhile the engine's role
   * remains `primary`, even while the program is stopped.
   */
  load(sizeBytes: number, data: AsyncIterable<Uint8Array>, options?: LoadOptions): Promise<SnapshotOutcome>;
}
