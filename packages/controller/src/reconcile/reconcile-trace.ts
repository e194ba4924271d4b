import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { CacheWaitOptions } from "../cache/cache-wait.ts";
import type { ReconcileResult } from "../metrics/metrics.ts";
import type { Cache, CacheListOptions } from "../cache/cache.ts";
import type { Request } from "./result.ts";

/** Why a request was queued. */
export interface ReconcileCause {
  /**
   * A change of an object (`create`, `update`, `delete`), an object of the initial list (`initial`) or of a resync, a trigger
   * of the controller, the `requeueAfterMs` of the previous reconcile, a retry after an error, or the cache catching up with the
   * request's own writes.
   */
  readonly why: "create" | "update" | "delete" | "initial" | "resync" | "trigger" | "requeueAfter" | "retry" | "ownWrites";
  /** The object that changed. */
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly resourceVersion?: string;
}

/** A read by a reconcile. */
export interface ReconcileRead {
  readonly kind: string;
  /** Whether it was read from the server rather than from the cache. */
  readonly live: boolean;
  /** Absent for a list of all namespaces. */
  readonly namespace?: string;
  readonly name?: string;
  /** Version of an object read from the cache; absent if it was not found. */
  readonly resourceVersion?: string;
  /** Number of objects in a list from the cache. */
  readonly count?: number;
}

/** Kind of a write. */
export type WriteVerb =
  | "create"
  | "update"
  | "updateStatus"
  | "patch"
  | "apply"
  | "applyStatus"
  | "delete"
  | "deleteCollection";

/** A write by a reconcile, in the order of the responses. */
export interface ReconcileWrite {
  readonly verb: WriteVerb;
  readonly kind: string;
  readonly namespace?: string;
  readonly name?: string;
  /** The resulting version. */
  readonly resourceVersion?: string;
  /** Why it failed. */
  readonly error?: string;
}

/** One reconcile: causes, reads, writes and result. */
export interface ReconcileRecord {
  /** `reconcileID` in the log. */
  readonly id: string;
  readonly controller: string;
  readonly request: Request;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** The first {@link maxDetails}. */
  readonly causes: readonly ReconcileCause[];
  readonly reads: readonly ReconcileRead[];
  readonly writes: readonly ReconcileWrite[];
  readonly result: ReconcileResult;
  readonly requeueAfterMs?: number;
  readonly error?: string;
}

/** Selects records. Absent fields match all. */
export interface ReconcileFilter {
  readonly controller?: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** Maximum number of causes, of reads, and of writes in one record. */
const maxDetails = 50;
/** Default number of records kept of each controller. */
export const defaultTraceLength = 100;

/** Ring buffer of the last reconciles of one controller. */
export class ReconcileTrace {
  readonly #length: number;
  readonly #records: ReconcileRecord[] = [];
  readonly #causes = new Map<string, { readonly cause: ReconcileCause; readonly dueAt: number }[]>();
  #next = 0;

  constructor(length: number) {
    this.#length = length;
  }

  /** Whether records are kept. */
  get isOn(): boolean {
    return this.#length > 0;
  }

  /** Records why the request of this id is queued, and when it is due by the monotonic clock. */
  caused(id: string, cause: ReconcileCause, dueAt: number): void {
    const causes = this.#causes.get(id);
    if (causes === undefined) this.#causes.set(id, [{ cause, dueAt }]);
    else if (causes.length < maxDetails) causes.push({ cause, dueAt });
  }

  /** Takes the causes recorded for this id that are due. Others are dropped: the queue holds a request once. */
  takeCauses(id: string, now: number): readonly ReconcileCause[] {
    const causes = this.#causes.get(id);
    if (causes === undefined) return none;
    this.#causes.delete(id);
    return causes.filter(({ dueAt }) => dueAt <= now).map(({ cause }) => cause);
  }

  add(record: ReconcileRecord): void {
    this.#records[this.#next] = record;
    this.#next = (this.#next + 1) % this.#length;
  }

  /** The records, oldest first. */
  records(): readonly ReconcileRecord[] {
    return [...this.#records.slice(this.#next), ...this.#records.slice(0, this.#next)];
  }
}

const none: readonly never[] = Object.freeze([]);

/** Whether a record matches the filter. */
export function isSelected({ controller, request }: ReconcileRecord, filter: ReconcileFilter): boolean {
  return (
    (filter.controller === undefined || filter.controller === controller) &&
    (filter.namespace === undefined || filter.namespace === (request.namespace ?? "")) &&
    (filter.name === undefined || filter.name === request.name)
  );
}

/** A view of the cache that records the reads of one reconcile. */
export class TracedCache implements Cache {
  readonly #cache: Cache;
  readonly #reads: ReconcileRead[];

  constructor(cache: Cache, reads: ReconcileRead[]) {
    this.#cache = cache;
    this.#reads = reads;
  }

  get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey): Stored<T> | undefined {
    const object = this.#cache.get(type, key);
    const version = (object as DeepReadonly<KubernetesObject> | undefined)?.metadata.resourceVersion;
    addDetail(this.#reads, {
      kind: type.kind,
      live: false,
      ...keyFields(key),
      ...(version === undefined ? {} : { resourceVersion: version }),
    });
    return object;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options?: CacheListOptions): readonly Stored<T>[] {
    const objects = this.#cache.list(type, options);
    addDetail(this.#reads, {
      kind: type.kind,
      live: false,
      ...(options?.namespace === undefined ? {} : { namespace: options.namespace }),
      count: objects.length,
    });
    return objects;
  }

  whenSeen<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void> {
    return this.#cache.whenSeen(type, object, options);
  }

  whenDeleted<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void> {
    return this.#cache.whenDeleted(type, object, options);
  }
}

/** Adds to a record's details up to {@link maxDetails}. */
export function addDetail<T>(details: T[], detail: T): void {
  if (details.length < maxDetails) details.push(detail);
}

/** The defined fields of a key. */
export function keyFields(key: { readonly namespace?: string | undefined; readonly name?: string | undefined }): {
  readonly namespace?: string;
  readonly name?: string;
} {
  const { namespace, name } = key;
  if (namespace === undefined) return name === undefined ? {} : { name };
  return name === undefined ? { namespace } : { namespace, name };
}
