import type { KubernetesObject, ResourceType, Stored } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Cache, Read } from "../cache/cache.ts";
import type { Change } from "../cache/change.ts";
import type { EventRecorder } from "../events/event-recorder.ts";
import type { Logger } from "../logging/logger.ts";
import type { BackoffOptions } from "../queue/item-backoff.ts";
import type { TriggerOptions } from "../queue/work-queue.ts";
import type { Request, Result } from "./result.ts";

/** What a reconcile works with. */
export interface ReconcileContext {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: EventRecorder;
  /** Aborted when the manager stops (after its grace period) or the reconcile times out. */
  readonly signal: AbortSignal;
}

/** Whether a change leads to a reconcile. */
export type Predicate<T extends KubernetesObject> = (change: Change<T>) => boolean;

/** A watch of a further kind. `map` returns the requests that a change leads to; on update it gets both the old and the new object. */
export interface Watch<T extends KubernetesObject> {
  readonly type: ResourceType<T>;
  readonly map: (object: Stored<T>, context: { readonly cache: Cache }) => readonly Request[];
  readonly predicates?: readonly Predicate<T>[];
}

/** What a {@link Trigger} starts with. */
export interface TriggerContext {
  readonly client: Client;
  readonly cache: Cache;
  readonly clock: Clock;
  readonly log: Logger;
  /** Adds a request to the controller's queue. A request that is already queued is not added twice. */
  readonly enqueue: (request: Request) => void;
}

/**
 * Triggers reconciles from something other than the declared kinds: dynamic watches, a message bus, a timer
 * (controller-runtime's `source.Channel`). Started before the workers, and stopped before the manager waits for them.
 */
export interface Trigger {
  /** Returns a function that stops the trigger. The manager waits up to 5 s for the promise that it may return. */
  readonly start: (context: TriggerContext) => () => void | Promise<void>;
}

/** A controller as data. The manager runs it. */
export interface ControllerDefinition {
  /** Unique in the process; the `controller` label of metrics and logs. */
  readonly name: string;
  /** The kind whose objects are reconciled. */
  readonly for: ResourceType;
  readonly predicates?: readonly Predicate<KubernetesObject>[];
  /** Kinds whose changes reconcile the object's controller owner, if that is of kind `for`. */
  readonly owns: readonly ResourceType[];
  readonly watches: readonly Watch<KubernetesObject>[];
  readonly reads: readonly Read<KubernetesObject>[];
  readonly triggers?: readonly Trigger[];
  /**
   * Priority of a request in the queue, read when it is added because of a change. Higher goes first; requests with the same priority are
   * handled in order. Default 0. Initial lists and resyncs have 100 less.
   */
  readonly priorityOf?: (request: Request, cache: Cache) => number;
  /** Default: the manager's, for this kind or for all; see `ManagerOptions`. */
  readonly maxConcurrentReconciles?: number;
  /** Default: none. */
  readonly reconcileTimeoutMs?: number;
  /** Delay of a failed request. Default: 5 ms, doubled up to 1000 s, and 10 a second in total after a burst of 100. */
  readonly backoff?: ControllerBackoff;
  /** Whether it runs only while its manager leads, if leader election is on. Default true. */
  readonly needsLeaderElection?: boolean;
  /**
   * Whether to fill the queue and start the triggers while waiting for the lease (controller-runtime's `EnableWarmup`), so
   * that reconciles start immediately after the election. Until then, writes of triggers are refused, and the queue holds every name
   * seen. Default false.
   */
  readonly warmUp?: boolean;
  readonly reconcile: (request: Request, context: ReconcileContext) => Promise<Result | undefined | void>;
}

/** Backoff of failed requests. */
export type ControllerBackoff = BackoffOptions & TriggerOptions;
