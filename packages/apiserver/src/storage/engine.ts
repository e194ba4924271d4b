/**
 * What the store needs of a database: ordered bytes by key, ordered bytes by revision, and atomic durable commits. Reads see
 * the state of the last commit that was acknowledged, all of it and nothing after it, until the next `commit` resolves.
 */
export interface Engine extends State {
  /** The last revision and the newest one whose event is gone, as the last commit left them. */
  readonly position: Position;
  /** The state as it is now, to be read over several turns. Whoever pins releases. Closing ends it. */
  pin(): State & { release(): void };
  /** Rejects when nothing of it is durable, with a {@link StorageFullError} where that is for want of space. One at a time. */
  commit(batch: Batch): Promise<void>;
  close(): Promise<void>;
}

/** Objects of one state. */
export interface View {
  /** Keys from `start` on and before `end` in order. The bytes are the caller's to keep. */
  range(start: string, end: string | undefined): Iterable<{ readonly key: string; readonly value: Uint8Array }>;
  count(start: string, end: string | undefined): number;
}

/** One state: its objects and its log. */
export interface State extends View {
  get(key: string): Uint8Array | undefined;
  /** Log entries after `after` in order of revision, or from the newest down, or from the newest before `before` down. */
  log(after: number, newestFirst?: boolean, before?: number): Iterable<LogRecord>;
}

/** An entry of the log as it is stored. */
export interface LogRecord {
  readonly revision: number;
  readonly value: Uint8Array;
}

/** Where the log begins and ends. */
export interface Position {
  readonly revision: number;
  readonly compacted: number;
}

/** One atomic commit. */
export interface Batch {
  readonly objects: readonly { readonly key: string; readonly value: Uint8Array | undefined }[];
  readonly log: readonly LogRecord[];
  readonly position: Position;
  /** Log entries to drop: those after `dropAfter` up to `position.compacted`. */
  readonly dropAfter: number;
}

/** There is no room for a commit. What was committed before is whole, and a later commit may succeed. */
export class StorageFullError extends Error {
  override readonly name = "StorageFullError";
  readonly code = "StorageFull";
}
