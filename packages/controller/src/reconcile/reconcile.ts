import type { DeepReadonly, KubernetesObject, ObjectKey, ResourceType, Stored } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { CacheWaitOptions } from "../cache/cache-wait.ts";
import type { BackoffOptions } from "../queue/item-backoff.ts";
import type { Logger } from "../logging/logger.ts";
import type { TriggerOptions } from "../queue/work-queue.ts";

/**
 * What a reconcile returns. Nothing (or `{}`) means done: run again when something changes. `requeueAfterMs` runs it again
 * after that time, not rate-limited. Throwing runs it again with exponential backoff; {@link TerminalError} never.
 */
export interface Result {
  readonly requeueAfterMs?: number;
  /** Overrides the item's priority in the queue. */
  readonly priority?: number;
}

/** An error that running again cannot mend: logged and counted, not retried until the object changes. */
export class TerminalError extends Error {
  override readonly name = "TerminalError";
  readonly code = "Terminal";
}

/** Options of {@link Cache.list}. */
export interface CacheListOptions {
  readonly namespace?: string | undefined;
  /** As `kubectl -l` takes it. */
  readonly labelSelector?: string | undefined;
  /** Name of an index declared for the kind, and the value looked for. */
  readonly index?: readonly [name: string, value: string];
  /** At most so many of them, in no particular order; the rest is not looked at. Default, and 0: all. */
  readonly limit?: number;
}

/**
 * Reads from the informers' stores: no request, no copy. Objects are frozen; `draft(object)` gives one's own copy.
 * Only kinds that some controller of the manager declares (`for`, `owns`, `watches`, `reads`) are there; another throws.
 */
export interface Cache {
  get<T extends KubernetesObject>(type: ResourceType<T>, key: ObjectKey): Stored<T> | undefined;
  list<T extends KubernetesObject>(type: ResourceType<T>, options?: CacheListOptions): readonly Stored<T>[];
  /**
   * Waits until the cache shows what a write answered: this version of the object or a later one. For whoever reads the cache after a
   * write and is no reconcile: a trigger, a server, a program's main, a test. (A reconcile need not wait, and should not: it does
   * not begin before the writes of the last one for its request show.) At once where the cache never shows the object, as its
   * namespace or labels are not among those that are cached.
   *
   * **Errors**: `CacheTimeoutError` (`code` `CacheTimeout`) that says what the cache has, after `timeoutMs`; the signal's reason; `TypeError` for a
   * kind that is not cached.
   */
  whenSeen<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void>;
  /**
   * Waits until the cache shows that `object` was deleted: it is not there, is being deleted, or another has its name. **Errors**: as
   * {@link Cache.whenSeen}.
   */
  whenDeleted<T extends KubernetesObject>(
    type: ResourceType<T>,
    object: DeepReadonly<T>,
    options?: CacheWaitOptions,
  ): Promise<void>;
}

/** Writes Kubernetes events (events.k8s.io/v1) about objects, with series for repeated ones. Never throws, never waits. */
export interface EventRecorder {
  event(
    regarding: DeepReadonly<KubernetesObject>,
    event: {
      readonly type: "Normal" | "Warning";
      /** CamelCase, at most 128 characters. */
      readonly reason: string;
      /** What was done or tried, CamelCase. Default: the reason. */
      readonly action?: string;
      /** At most 1 kB; longer ones are cut. */
      readonly note: string;
      readonly related?: DeepReadonly<KubernetesObject>;
      /** Who reports, `reportingController`. Default: the recorder's. */
      readonly controller?: string;
    },
  ): void;
}

/** What a reconcile works with. */
export interface ReconcileContext {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  /** Fires when the manager stops (after its grace) or the reconcile's timeout passes. */
  readonly signal: AbortSignal;
}

/** What is to be reconciled: the key of an object of the controller's kind. */
export type Request = ObjectKey;

/** Extracts index values from an object. An object is found under each of them. */
export type IndexFunction<T extends KubernetesObject> = (object: Stored<T>) => readonly string[];

/** A change that a source saw. `old` is absent on create, and the last known state on delete. */
export interface Change<T extends KubernetesObject> {
  readonly type: "create" | "update" | "delete";
  readonly object: DeepReadonly<T>;
  readonly old?: DeepReadonly<T>;
}

/** Calls `listener` on every change of a cached kind, after the store has it. Returns a function that unsubscribes. */
export type OnChange = <T extends KubernetesObject>(type: ResourceType<T>, listener: (change: Change<T>) => void) => () => void;

/** Whether a change is worth a reconcile. */
export type Predicate<T extends KubernetesObject> = (change: Change<T>) => boolean;

/** A watch of a further kind: which requests a change of one of its objects leads to. On update, old and new are both mapped. */
export interface Watch<T extends KubernetesObject> {
  readonly type: ResourceType<T>;
  readonly map: (object: Stored<T>, context: { readonly cache: Cache }) => readonly Request[];
  readonly predicates?: readonly Predicate<T>[];
}

/** A kind that the reconcile only reads from the cache, and further indexes on any kind. */
export interface Read<T extends KubernetesObject> {
  readonly type: ResourceType<T>;
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>;
}

/** What a {@link Trigger} starts with. */
export interface TriggerContext {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
  /** Puts a request in the controller's queue. Any number of times; those that wait there already are one. */
  readonly enqueue: (request: Request) => void;
}

/**
 * Leads to reconciles by something else than the kinds that a controller declares: watches that come and go, answers from
 * elsewhere (controller-runtime's `source.Channel`). Started before the workers; stopped before they are waited for.
 */
export interface Trigger {
  /** Answers the way to stop. */
  readonly start: (context: TriggerContext) => () => void;
}

/** A controller as data. The manager runs it. */
export interface ControllerDefinition {
  /** Unique in the process; the `controller` label of metrics and logs. */
  readonly name: string;
  /** The kind whose objects are reconciled. */
  readonly for: ResourceType;
  readonly predicates?: readonly Predicate<KubernetesObject>[];
  /** Kinds whose objects lead to their controller owner of kind `for`. */
  readonly owns: readonly ResourceType[];
  readonly watches: readonly Watch<KubernetesObject>[];
  readonly reads: readonly Read<KubernetesObject>[];
  readonly triggers?: readonly Trigger[];
  /** Default: the manager's, for this kind or for all; see `ManagerOptions`. */
  readonly maxConcurrentReconciles?: number;
  /** Default: none. */
  readonly reconcileTimeoutMs?: number;
  /** How long a request that failed waits. Default: 5 ms, doubled up to 1000 s, and all together 10 a second after a burst of 100. */
  readonly backoff?: ControllerBackoff;
  /** Whether it runs only while its manager leads, where there is an election. Default true. */
  readonly needsLeaderElection?: boolean;
  /**
   * Whether its queue is filled, and its triggers are started, while the lease is waited for (controller-runtime's
   * `EnableWarmup`), so that it begins at once when this process leads. Writes of triggers are refused until then, and the queue
   * holds every name that was ever seen meanwhile. Default false.
   */
  readonly warmUp?: boolean;
  readonly reconcile: (request: Request, context: ReconcileContext) => Promise<Result | undefined | void>;
}

/** How requests of a controller that failed are tried again. */
export type ControllerBackoff = BackoffOptions & TriggerOptions;

/** What {@link defineController} takes: a {@link ControllerDefinition} with types and defaults. */
export interface ControllerOptions<T extends KubernetesObject> {
  readonly name: string;
  readonly for: ResourceType<T>;
  readonly predicates?: readonly Predicate<T>[];
  readonly owns?: readonly ResourceType[];
  /** Made by {@link watchOf}. */
  readonly watches?: readonly Watch<KubernetesObject>[];
  /** Made by {@link readOf}. */
  readonly reads?: readonly Read<KubernetesObject>[];
  readonly triggers?: readonly Trigger[];
  readonly maxConcurrentReconciles?: number;
  readonly reconcileTimeoutMs?: number;
  readonly backoff?: ControllerBackoff;
  readonly needsLeaderElection?: boolean;
  readonly warmUp?: boolean;
  readonly reconcile: (request: Request, context: ReconcileContext) => Promise<Result | undefined | void>;
}

/** Declares a controller. */
export function defineController<T extends KubernetesObject>(options: ControllerOptions<T>): ControllerDefinition {
  const { predicates, ...rest } = options;
  return {
    owns: [],
    watches: [],
    reads: [],
    ...rest,
    ...(predicates ? { predicates: predicates as readonly Predicate<KubernetesObject>[] } : {}),
  };
}

/** Declares a watch of a further kind. */
export function watchOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  map: Watch<T>["map"],
  predicates?: readonly Predicate<T>[],
): Watch<KubernetesObject> {
  return { type, map, ...(predicates ? { predicates } : {}) } as unknown as Watch<KubernetesObject>;
}

/** Declares a kind that is read from the cache, with indexes by name. Index names are per kind and shared by all controllers. */
export function readOf<T extends KubernetesObject>(
  type: ResourceType<T>,
  indexes?: Readonly<Record<string, IndexFunction<T>>>,
): Read<KubernetesObject> {
  return { type, ...(indexes ? { indexes } : {}) } as unknown as Read<KubernetesObject>;
}
