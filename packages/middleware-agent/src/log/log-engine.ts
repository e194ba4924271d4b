import type { Outcome } from "../engine.ts";

/** A complete file of a program's log. */
export interface LogFile {
  /** Unique within an App: a file of another history has another name. */
  readonly name: string;
  /** Identifies this file and all before it. Its meaning is the engine's own. */
  readonly cursor: string;
  readonly data: AsyncIterable<Uint8Array>;
}

/** Options of {@link LogEngine.next}. */
export interface ReadLogOptions {
  /** If the next file no longer exists: the oldest one that does. */
  readonly skipMissing?: boolean;
  readonly signal?: AbortSignal;
}

/** The log of a program, which is archived file by file. One caller reads, stores and confirms. */
export interface LogEngine {
  /** Makes the program keep its log until it was confirmed, even after a restart and on a replica that is promoted; or ends that. */
  setArchive(isEnabled: boolean): Promise<Outcome>;
  /**
   * Waits for the first complete file that was not confirmed, on the primary. At first that is the oldest one that exists.
   *
   * **Errors**: an `AgentError` with code `LogMissing` if that file no longer exists, or with code `SnapshotFailed` if this
   * server is not a primary.
   */
  next(options?: ReadLogOptions): Promise<LogFile>;
  /** Everything up to this cursor was stored durably. `missing`: the first file that was skipped. */
  confirm(cursor: string, missing?: string): Promise<Outcome>;
}

/** Where a recovery ends: with the last transaction before a time, at a position of the program, or at the end of the log. */
export type RecoveryTarget =
  | { readonly kind: "latest" }
  | { readonly kind: "time"; readonly time: string }
  | { readonly kind: "position"; readonly position: string };

/** Archived log. */
export interface LogSource {
  /** Names of all files. */
  readonly names: ReadonlySet<string>;
  /** Reads a file in {@link names}. Files are read one after the other. */
  read(name: string): AsyncIterable<Uint8Array>;
}

/** Log to apply to a snapshot. */
export interface Recovery {
  readonly target: RecoveryTarget;
  readonly log: LogSource;
}
