import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { CacheWaitOptions } from "./cache-wait.ts";

/** Options of {@link Cache.list}. */
export interface CacheListOptions {
  readonly namespace?: string | undefined;
  /** In the syntax of `kubectl -l`. */
  readonly labelSelector?: string | undefined;
  /** Name of an index declared for the kind, and the value to match. */
  readonly index?: readonly [name: string, value: string];
  /** Maximum number of objects to return, in no particular order. Default, and 0: all. */
  readonly limit?: number;
}

/**
 * Reads from the informers' stores: no request, no copy. Objects are frozen; `draft(object)` returns a mutable copy.
 * Only kinds that a controller of the manager declares (`for`, `owns`, `watches`, `reads`) are cached; reading another throws.
 */
export interface Cache {
  get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey): Stored<T> | undefined;
  list<T extends KubernetesObject>(type: ResourceType<T>, options?: CacheListOptions): readonly Stored<T>[];
  /**
   * Waits until the cache has this version of the object or a later one. Use it to read your own write outside a reconcile: in a
   * trigger, a server, a program's main or a test. A reconcile does not need it, because it starts only after the cache has the writes of
   * the previous reconcile for its request. Resolves immediately if the cache never holds the object, because its namespace or
   * labels are not selected.
   *
   * **Errors**: `CacheTimeoutError` (`code` `CacheTimeout`), which says what the cache has, after `timeoutMs`; the signal's reason;
   * `TypeError` for a kind that is not cached.
   */
  whenSeen<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void>;
  /**
   * Waits until the cache shows that `object` was deleted: it is absent, is being deleted, or another object has its name. **Errors**: as
   * {@link Cache.whenSeen}.
   */
  whenDeleted<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void>;
}

/** Computes index values of an object. The object is found under each of them. */
export type IndexFunction<T extends KubernetesObject> = (object: Stored<T>) => readonly string[];

/** A kind that is cached because it is read, with indexes by name. Indexes may be added to any cached kind. */
export interface Read<T extends KubernetesObject> {
  readonly type: ResourceType<T>;
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
}

/** Declares a kind that is read from the cache, with indexes by name. Index names are per kind and shared by all controllers. */
export function readOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  indexes?: Readonly<Record<string, IndexFunction<T>>>,
): Read<KubernetesObject> {
  // Controllers hold reads of many kinds in one list. The cache calls an index only with objects of its kind.
  return { type, ...(indexes ? { indexes } : {}) } as unknown as Read<KubernetesObject>;
}
