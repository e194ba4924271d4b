/**
 * What the store requires of a database: ordered bytes by key, ordered bytes by revision, and atomic durable commits. Reads see
 * the state of the last acknowledged commit in full, and nothing newer, until the next `commit` resolves.
 */
export interface Engine extends State {
  /** The last revision and the newest one whose event was dropped, as of the last commit. */
  readonly position: Position;
  /** The current state, held for reads that span several turns of the event loop. The caller releases it; `close` ends it. */
  pin(): PinnedEngineState;
  /**
   * Commits a batch durably. Callers must not overlap commits.
   *
   * **Errors**: rejects if nothing of the batch is durable, with a `StorageError` `StorageFull` if there is no space for it.
   */
  commit(batch: Batch): Promise<void>;
  close(): Promise<void>;
}

/** A state that stays readable until it is released. */
export interface PinnedEngineState extends State {
  release(): void;
}

/** The objects of one state. */
export interface View {
  /** Keys from `start` (inclusive) to `end` (exclusive), in order. The caller may keep the bytes. */
  range(start: string, end: string | undefined): Iterable<KeyValue>;
  /**
   * As {@link range}, without a copy where possible: a value is valid until the next entry is requested, or anything else is read. At most
   * one such iteration may be in progress.
   */
  borrow(start: string, end: string | undefined): Iterable<KeyValue>;
  /**
   * The number of keys, in parts to add up. Each part counts at most about {@link keysPerPart} keys, so that the caller can end its turn of
   * the event loop in between. Only a pinned state may be counted over several turns.
   */
  count(start: string, end: string | undefined): Iterable<number>;
}

/** Keys in one part of {@link View.count}: one to two milliseconds on a busy machine. */
export const keysPerPart = 5_000;

/** An object and its key. */
export interface KeyValue {
  readonly key: string;
  readonly value: Uint8Array;
}

/** One state: its objects and its log. */
export interface State extends View {
  get(key: string): Uint8Array | undefined;
  has(key: string): boolean;
  /** Log entries after `after` by ascending revision; or, newest first, descending from the newest or from the newest before `before`. */
  log(after: number, newestFirst?: boolean, before?: number): Iterable<LogRecord>;
}

/** A stored log entry. */
export interface LogRecord {
  readonly revision: number;
  readonly value: Uint8Array;
}

/** The bounds of the log. */
export interface Position {
  /** The newest revision. */
  readonly revision: number;
  /** Events up to this revision were dropped. */
  readonly compacted: number;
}

/** One atomic commit. */
export interface Batch {
  /** Puts, and removals where `value` is undefined. */
  readonly objects: readonly { readonly key: string; readonly value: Uint8Array | undefined }[];
  readonly log: readonly LogRecord[];
  readonly position: Position;
  /** Log entries to drop: those after `dropAfter` up to `position.compacted`. */
  readonly dropAfter: number;
  /** Whether the commit only deletes objects or lets deleted ones go: such commits may use reserved space. Default false. */
  readonly isFreeing?: boolean;
}

/** Until something is written, the revision is 1: to a client, 0 means "any". */
export const initialPosition: Position = { revision: 1, compacted: 1 };
