import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { CacheWaitOptions } from "../cache/cache-wait.ts";
import type { ReconcileResult } from "../metrics/metrics.ts";
import type { Cache, CacheListOptions } from "../cache/cache.ts";
import type { Request } from "./result.ts";

/** Why a request was put in the queue. */
export interface ReconcileCause {
  /**
   * A change of an object (`create`, `update`, `delete`), an object that was there at the start (`initial`) or is told again
   * (`resync`), a trigger of the controller's own, the time that the last reconcile asked for, a retry after an error, or own
   * writes that now show in the cache.
   */
  readonly why: "create" | "update" | "delete" | "initial" | "resync" | "trigger" | "requeueAfter" | "retry" | "ownWrites";
  /** The object that changed. */
  readonly kind?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly resourceVersion?: string;
}

/** A read of a reconcile. */
export interface ReconcileRead {
  readonly kind: string;
  /** From the server rather than from the cache. */
  readonly live: boolean;
  /** What was asked for: an object's name, or nothing for a list. */
  readonly namespace?: string;
  readonly name?: string;
  /** Of an object read from the cache; absent when there was none. */
  readonly resourceVersion?: string;
  /** How many objects a list from the cache had. */
  readonly count?: number;
}

/** What a write did. */
export type WriteVerb =
  | "create"
  | "update"
  | "updateStatus"
  | "patch"
  | "apply"
  | "applyStatus"
  | "delete"
  | "deleteCollection";

/** A write of a reconcile, in the order in which they were answered. */
export interface ReconcileWrite {
  readonly verb: WriteVerb;
  readonly kind: string;
  readonly namespace?: string;
  readonly name?: string;
  /** The version that the write led to. */
  readonly resourceVersion?: string;
  /** Why it was refused. */
  readonly error?: string;
}

/** One reconcile: why it ran, what it read, what it wrote, how it ended. */
export interface ReconcileRecord {
  /** As `reconcileID` in the log. */
  readonly id: string;
  readonly controller: string;
  readonly request: Request;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly durationMs: number;
  /** At most {@link maxDetails}; the earliest ones. */
  readonly causes: readonly ReconcileCause[];
  readonly reads: readonly ReconcileRead[];
  readonly writes: readonly ReconcileWrite[];
  readonly result: ReconcileResult;
  readonly requeueAfterMs?: number;
  readonly error?: string;
}

/** Which records are asked for; absent fields do not select. */
export interface ReconcileFilter {
  readonly controller?: string;
  readonly namespace?: string;
  readonly name?: string;
}

/** Causes, reads and writes that one record holds, of each. */
export const maxDetails = 50;
/** Records that are kept of each controller, by default. */
export const defaultTraceLength = 100;

/** The last reconciles of one controller, in memory: the oldest makes room for the newest. */
export class ReconcileTrace {
  readonly #length: number;
  readonly #records: ReconcileRecord[] = [];
  readonly #causes = new Map<string, { readonly cause: ReconcileCause; readonly dueAt: number }[]>();
  #next = 0;

  constructor(length: number) {
    this.#length = length;
  }

  /** Whether anything is kept. */
  get isOn(): boolean {
    return this.#length > 0;
  }

  /** Says why the request of this id will run, and from when on (by the monotonic clock). */
  caused(id: string, cause: ReconcileCause, dueAt: number): void {
    const causes = this.#causes.get(id);
    if (causes === undefined) this.#causes.set(id, [{ cause, dueAt }]);
    else if (causes.length < maxDetails) causes.push({ cause, dueAt });
  }

  /** What was said for this id since it was last asked, and is due. What is not yet is void: the item was in the queue once. */
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

  /** The records, the oldest first. */
  records(): readonly ReconcileRecord[] {
    return [...this.#records.slice(this.#next), ...this.#records.slice(0, this.#next)];
  }
}

const none: readonly never[] = Object.freeze([]);

/** Whether a record is asked for. */
export function isSelected({ controller, request }: ReconcileRecord, filter: ReconcileFilter): boolean {
  return (
    (filter.controller === undefined || filter.controller === controller) &&
    (filter.namespace === undefined || filter.namespace === (request.namespace ?? "")) &&
    (filter.name === undefined || filter.name === request.name)
  );
}

/** The cache as one reconcile sees it: what it reads is noted. */
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
    note(this.#reads, {
      kind: type.kind,
      live: false,
      ...keyFields(key),
      ...(version === undefined ? {} : { resourceVersion: version }),
    });
    return object;
  }

  list<T extends KubernetesObject>(type: ResourceType<T>, options?: CacheListOptions): readonly Stored<T>[] {
    const objects = this.#cache.list(type, options);
    note(this.#reads, {
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

/** Adds to a record's details as long as there is room. */
export function note<T>(details: T[], detail: T): void {
  if (details.length < maxDetails) details.push(detail);
}

/** A key's fields, those that are there. */
export function keyFields(key: { readonly namespace?: string | undefined; readonly name?: string | undefined }): {
  readonly namespace?: string;
  readonly name?: string;
} {
  const { namespace, name } = key;
  if (namespace === undefined) return name === undefined ? {} : { name };
  return name === undefined ? { namespace } : { namespace, name };
}
