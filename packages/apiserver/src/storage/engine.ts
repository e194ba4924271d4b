/**
 * What the store needs of a database: ordered bytes by key, ordered bytes by revision, and atomic durable commits. Reads see
 * the state of the last commit that was acknowledged, all of it and nothing after it, until the next `commit` resolves.
 */
export interface Engine {
  /** The last revision and the newest one whose event is gone, as the last commit left them. */
  readonly position: Position;
  get(key: string): Uint8Array | undefined;
  /** Keys from `start` on and before `end` in order. The bytes are the caller's to keep. */
  range(start: string, end: string | undefined): Iterable<{ readonly key: string; readonly value: Uint8Array }>;
  count(start: string, end: string | undefined): number;
  /** Log entries after `after` in order of revision, or from the newest down. */
  log(after: number, newestFirst?: boolean): Iterable<{ readonly revision: number; readonly value: Uint8Array }>;
  /** Rejects when nothing of it is durable. One at a time. */
  commit(batch: Batch): Promise<void>;
  close(): Promise<void>;
}

/** Where the log begins and ends. */
export interface Position {
  readonly revision: number;
  readonly compacted: number;
}

/** One atomic commit. */
export interface Batch {
  readonly objects: readonly { readonly key: string; readonly value: Uint8Array | undefined }[];
  readonly log: readonly { readonly revision: number; readonly value: Uint8Array }[];
  readonly position: Position;
  /** Log entries to drop: those after `dropAfter` up to `position.compacted`. */
  readonly dropAfter: number;
}
