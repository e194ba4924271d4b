import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

/**
 * A stored object: its bytes as they are in storage and on every wire, and the object parsed from them when somebody
 * first asks. Both are immutable; the object is frozen and shared by every reader in the process.
 */
export interface StoredObject {
  /** `<group>/<plural>/<namespace or empty>/<name>`, see {@link storageKey}. */
  readonly key: string;
  /** The revision of the write that made it: `metadata.resourceVersion`. */
  readonly revision: number;
  /** UTF-8 JSON in storage version, with `apiVersion`, `kind` and `metadata.resourceVersion`. */
  readonly bytes: Uint8Array;
  readonly object: DeepReadonly<KubernetesObject>;
}

/** A change, as the event log keeps it. `previous` is the object before it: selectors need it to see what left. */
export interface StoreEvent {
  readonly type: "put" | "delete";
  readonly revision: number;
  /** After a put, what was put; after a delete, the last state, its resourceVersion being the delete's revision. */
  readonly object: StoredObject;
  readonly previous: StoredObject | undefined;
}

/** What a conditional write found instead of what it expected. */
export type WriteResult =
  | { readonly ok: true; readonly stored: StoredObject }
  | { readonly ok: false; readonly current: StoredObject | undefined };

/** A page of a range. */
export interface StorePage {
  readonly items: readonly StoredObject[];
  /** Of the snapshot that the page was read from. */
  readonly revision: number;
  /** Where the next page begins; absent on the last one. */
  readonly next?: string;
  /** How many are left after this page. */
  readonly remaining: number;
}

/** Takes what a watch brings: `isReplay` where it comes from the log. */
export type WatchListener = (events: readonly StoreEvent[], isReplay?: boolean) => void;

/** A watch of the store. */
export interface StoreWatch {
  /** Whether events from the log are still to come. Default false. */
  readonly isReplaying?: boolean;
  close(): void;
}

/** The state of one revision, held for who reads it over several turns of the event loop. */
export interface PinnedState extends Disposable {
  readonly revision: number;
  /** As {@link Store.list}, but without a count of what is left. */
  list(prefix: string, options: { limit: number; startAfter?: string }): Pick<StorePage, "items" | "next">;
  /** How many keys that begin with `prefix` come after `key`. */
  countAfter(prefix: string, key: string): number;
}

/**
 * Objects by key with one revision counter over all, an event log by revision, and watches that resume from it.
 *
 * **Guarantees**: a write resolves when it is durable (it survives SIGKILL and power loss with `sync`); writes are seen
 * by `get` and `list` and sent to watchers in order of their revision and only when durable; revisions never repeat nor go
 * back, also across restarts; no reader sees part of a write.
 */
export interface Store {
  /** The newest durable revision. */
  readonly revision: number;
  get(key: string): StoredObject | undefined;
  /** Keys that begin with `prefix`, in order. */
  list(prefix: string, options?: { limit?: number; startAfter?: string }): StorePage;
  /** Holds the newest state until it is disposed of. After the store is closed it reads nothing more. */
  pin(): PinnedState;
  /**
   * Holds the state of an earlier revision as far as keys begin with `prefix`. The event log is read for it, in slices between which
   * others have their turn. Rejects with a `StatusError` `Expired` when the log does not go back that far.
   */
  pinAt(prefix: string, revision: number): Promise<PinnedState>;
  /**
   * Creates (`expected` 0), replaces or deletes (`object` undefined) if the key's revision is `expected`. The store sets
   * `metadata.resourceVersion`.
   */
  write(key: string, expected: number, object: KubernetesObject | undefined): Promise<WriteResult>;
  /**
   * Calls `listener` for every event of keys that begin with `prefix` after `afterRevision`, first from the log, then live. A long log is
   * replayed in slices between which others have their turn; `onError` is told when that fails, which closes the watch.
   * Throws a `StatusError` `Expired` when the log does not go back that far. A listener must not block or throw.
   */
  watch(prefix: string, afterRevision: number, listener: WatchListener, onError?: (error: unknown) => void): StoreWatch;
  close(): Promise<void>;
}

/** The key of an object in the store. */
export function storageKey(
  resource: { readonly group: string; readonly plural: string },
  namespace: string,
  name: string,
): string {
  return `${resource.group}/${resource.plural}/${namespace}/${name}`;
}
