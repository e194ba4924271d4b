import type { DeepReadonly, KubernetesObject } from "@keelson/api-machinery";

/**
 * A stored object: its bytes as they are in storage and on every wire, and the object, which is parsed from them on first access.
 * Both are immutable; the object is frozen and shared by all readers in the process.
 */
export interface StoredObject {
  /** `<group>/<plural>/<namespace or empty>/<name>`, see {@link storageKey}. */
  readonly key: string;
  /** The revision of the last write: `metadata.resourceVersion`. */
  readonly revision: number;
  /** The revision at which its content was written, if that is an earlier one: that of a deleted object. */
  readonly contentRevision?: number;
  /** UTF-8 JSON in the storage version, with `apiVersion`, `kind` and `metadata.resourceVersion`. */
  readonly bytes: Uint8Array;
  readonly object: DeepReadonly<KubernetesObject>;
}

/** An entry of the event log. `previous` is the object before the change: selectors use it to detect objects that no longer match. */
export interface StoreEvent {
  readonly type: "put" | "delete";
  readonly revision: number;
  /** After a put, the new object; after a delete, the last state with the resourceVersion of the delete. */
  readonly object: StoredObject;
  readonly previous: StoredObject | undefined;
}

/** The result of a conditional write: the stored object, or the current one if the condition failed. */
export type WriteResult =
  | { readonly ok: true; readonly stored: StoredObject }
  | { readonly ok: false; readonly current: StoredObject | undefined };

/** A page of a range. */
export interface StorePage {
  readonly items: readonly StoredObject[];
  /** The revision of the snapshot that the page was read from. */
  readonly revision: number;
  /** The last key of this page; absent on the last page. */
  readonly next?: string;
}

/** Receives the events of a watch. `isReplay` is true for events from the log. */
export type WatchListener = (events: readonly StoreEvent[], isReplay?: boolean) => void;

/** A watch of the store. */
export interface StoreWatch {
  /** Whether events from the log are still to be delivered. Default false. */
  readonly isReplaying?: boolean;
  close(): void;
}

/** Receives the bytes of a stored object, which are valid only during the call. Returns false if it must be the last one of the turn. */
export type StoredVisitor = (key: string, revision: number, bytes: Uint8Array) => boolean;

/** The state at one revision, held for reads that span several turns of the event loop. */
export interface PinnedState extends Disposable {
  readonly revision: number;
  /** As {@link Store.list}. */
  list(
    prefix: string,
    options: {
      limit: number;
      /** The page ends with the object that reaches this size. Default: unlimited. */
      maxBytes?: number;
      startAfter?: string;
    },
  ): Pick<StorePage, "items" | "next">;
  /**
   * As {@link list}, for readers that only copy the bytes: calls `visit` for each object until it returns false. Returns the last key if
   * more may follow. `visit` must not read from the store.
   */
  visit(
    prefix: string,
    options: { limit: number; maxBytes: number; startAfter: string },
    visit: StoredVisitor,
  ): string | undefined;
  /** The number of keys that begin with `prefix` and follow `key`, in parts to add up, each of which takes about a millisecond. */
  countAfter(prefix: string, key: string): Iterable<number>;
}

/**
 * Objects by key with one revision counter, an event log by revision, and watches that resume from it.
 *
 * **Guarantees**: a write resolves when it is durable (it survives SIGKILL and, with `sync`, power loss). `get`, `list` and watches show
 * writes in revision order and only once they are durable. Revisions never repeat or go back, even across restarts. No reader sees
 * part of a write.
 */
export interface Store {
  /** The newest durable revision. */
  readonly revision: number;
  get(key: string): StoredObject | undefined;
  /** Keys that begin with `prefix`, in order. */
  list(prefix: string, options?: { limit?: number; startAfter?: string }): StorePage;
  /** Holds the newest state until it is disposed. It cannot be read after the store is closed. */
  pin(): PinnedState;
  /**
   * Holds the state of keys that begin with `prefix` at an earlier revision. It is reconstructed from the event log, in slices that yield
   * to the event loop. Rejects with a `StatusError` `Expired` if the log does not reach back that far.
   */
  pinAt(prefix: string, revision: number): Promise<PinnedState>;
  /**
   * Creates (`expected` 0), replaces or deletes (`object` undefined) if the key's revision is `expected`. Sets
   * `metadata.resourceVersion`.
   */
  write(key: string, expected: number, object: KubernetesObject | undefined): Promise<WriteResult>;
  /**
   * Calls `listener` for every event after `afterRevision` of keys that begin with `prefix`, first from the log, then live. A long log is
   * replayed in slices that yield to the event loop; if that fails, the watch closes and `onError` is called.
   * Throws a `StatusError` `Expired` if the log does not reach back that far. A listener must not block or throw.
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

/** The prefix of the keys of all objects of a resource, in all namespaces. */
export function storagePrefix(resource: { readonly group: string; readonly plural: string }): string {
  return `${resource.group}/${resource.plural}/`;
}
