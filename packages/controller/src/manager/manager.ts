import type { KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { CacheOptions } from "../cache/cache-options.ts";
import type { Logger } from "../logging/logger.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { OnChange } from "../cache/change.ts";
import type { Cache, Read } from "../cache/cache.ts";
import type { ControllerDefinition } from "../reconcile/controller-definition.ts";
import type { ReconcileFilter, ReconcileRecord } from "../reconcile/reconcile-trace.ts";

/** Where a manager stands: its controllers run, or they wait for a lease that `holder` has (absent: it could not be read). */
export type Leadership = { readonly kind: "leading" } | { readonly kind: "standby"; readonly holder?: string };

/** Options of {@link Manager}s. */
export interface ManagerOptions {
  readonly client: Client;
  readonly clock?: Clock;
  /** Default: none, so failed reconciles show in metrics and records only. See `createJsonLogger`. */
  readonly logger?: Logger;
  readonly controllers: readonly ControllerDefinition[];
  /** Reconciles that run at once of each controller that does not say it itself. Default 1. */
  readonly maxConcurrentReconciles?: number;
  /** The same by kind, and before it: `Kind.group`, and `Kind` in the core group (`{ "Deployment.apps": 5, Pod: 10 }`). */
  readonly groupKindConcurrency?: Readonly<Record<string, number>>;
  /** Further kinds to cache, for servers. */
  readonly reads?: readonly Read<KubernetesObject>[];
  /** Runs controllers only while holding this lease, but those that do not need it. Default: no election. */
  readonly leaderElection?: { readonly namespace: string; readonly name: string; readonly identity?: string };
  /** How long `stop` waits for reconciles that run. Default 30000; 0 does not wait, less than 0 waits for ever. */
  readonly gracefulShutdownTimeoutMs?: number;
  /** Namespaces to watch. Default: all. As `cache.namespaces`, and before it. */
  readonly namespaces?: readonly string[];
  /** What of the kinds is cached: selectors, namespaces and transforms, by kind too. Default: all of all. */
  readonly cache?: CacheOptions;
  /** Name in events (`reportingController`) and the default field manager. */
  readonly name: string;
  /** Where the figures go. Default: nowhere. See `createPrometheusMetrics`. */
  readonly metrics?: Metrics;
  /** A number in [0, 1), for jitter. Default: `Math.random`. */
  readonly random?: () => number;
  /** Reconciles of each controller that {@link Manager.reconciles} can tell of. Default 100; 0 keeps none. */
  readonly traceLength?: number;
  /**
   * Runs when the caches are synced and, with leader election, this process leads; controllers that need the lease start after it.
   * The signal fires when the manager begins to stop, which waits for the end of what runs here.
   */
  readonly beforeControllers?: (signal: AbortSignal) => Promise<void>;
  /** Called when the controllers have started, and with leader election before that while the lease is waited for. */
  readonly onLeadership?: (leadership: Leadership) => void;
  /** Runs at the stop, after the controllers and before the caches stop. */
  readonly afterControllers?: () => Promise<void>;
}

/**
 * Runs controllers on one shared cache, in controller-runtime's order: caches (synced), then servers started by the
 * caller, then leader election, then controllers; and back.
 */
export interface Manager {
  readonly cache: Cache;
  readonly onChange: OnChange;
  /** Starts informers and waits until every one has listed. Rejects naming the kind when that takes over 2 min. */
  startCaches(signal?: AbortSignal): Promise<void>;
  /** Starts the controllers (after `startCaches`, which it calls if it was not). */
  start(signal?: AbortSignal): Promise<void>;
  /**
   * The last reconciles, by controller and the oldest first: why each ran, what it read, what it wrote, how it ended. In memory
   * only. A probe server shows them under `/debug/reconciles`.
   */
  reconciles(filter?: ReconcileFilter): readonly ReconcileRecord[];
  /** Settles when the manager has stopped; rejects when it lost its lease or failed. */
  readonly done: Promise<void>;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
