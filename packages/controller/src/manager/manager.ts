import type { KubernetesObject } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { CacheOptions } from "../cache/cache-options.ts";
import type { Logger } from "../logging/logger.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { OnChange } from "../cache/change.ts";
import type { Cache, Read } from "../cache/cache.ts";
import type { ControllerDefinition } from "../reconcile/controller-definition.ts";
import type { ManagedWebhooks } from "./managed-webhooks.ts";
import type { ReconcileFilter, ReconcileRecord } from "../reconcile/reconcile-trace.ts";

/** Whether a manager runs its controllers or waits for the lease. `holder` is absent if the lease could not be read. */
export type Leadership = { readonly kind: "leading" } | { readonly kind: "standby"; readonly holder?: string };

/** Options of `createManager`. */
export interface ManagerOptions {
  readonly client: Client;
  readonly clock?: Clock;
  /** Default: none; failed reconciles are then visible in metrics and records only. See `createJsonLogger`. */
  readonly logger?: Logger;
  readonly controllers: readonly ControllerDefinition[];
  /** Maximum concurrent reconciles of a controller that does not set its own. Default 1. */
  readonly maxConcurrentReconciles?: number;
  /** The same by kind, with precedence: `Kind.group`, or `Kind` in the core group (`{ "Deployment.apps": 5, Pod: 10 }`). */
  readonly groupKindConcurrency?: Readonly<Record<string, number>>;
  /** Further kinds to cache, for servers. */
  readonly reads?: readonly Read<KubernetesObject>[];
  /** Serves admission and conversion webhooks, from before the caches start: `createWebhooks` of `@keelson/controller/webhooks`. Default: none. */
  readonly webhooks?: ManagedWebhooks;
  /** Runs controllers only while holding this lease, except those with `needsLeaderElection: false`. Default: no election. */
  readonly leaderElection?: { readonly namespace: string; readonly name: string; readonly identity?: string };
  /** How long `stop` waits for running reconciles. Default 30000; 0 does not wait, a negative value waits indefinitely. */
  readonly gracefulShutdownTimeoutMs?: number;
  /** Namespaces to watch. Default: all. Overrides `cache.namespaces`. */
  readonly namespaces?: readonly string[];
  /** Selectors, namespaces and transforms of cached objects, also by kind. Default: all objects, unchanged. */
  readonly cache?: CacheOptions;
  /** Name in events (`reportingController`) and the default field manager. */
  readonly name: string;
  /** Default: none. See `createPrometheusMetrics`. */
  readonly metrics?: Metrics;
  /** 0 (inclusive) to 1 (exclusive), for jitter. Default: `Math.random`. */
  readonly random?: () => number;
  /** Number of reconciles of each controller that {@link Manager.reconciles} keeps. Default 100; 0 keeps none. */
  readonly traceLength?: number;
  /**
   * Runs when the caches are synced and, with leader election, this process leads. Controllers that need the lease start after it.
   * The signal is aborted when the manager starts to stop; the stop waits for this function.
   */
  readonly beforeControllers?: (signal: AbortSignal) => Promise<void>;
  /** Called when the controllers have started and, with leader election, while waiting for the lease. */
  readonly onLeadership?: (leadership: Leadership) => void;
  /** Runs during the stop, after the controllers and before the caches stop. */
  readonly afterControllers?: () => Promise<void>;
}

/**
 * Runs controllers on one shared cache, in controller-runtime's order: webhooks, caches (synced), then servers started by the
 * caller, then leader election, then controllers. It stops them in reverse order.
 */
export interface Manager {
  readonly cache: Cache;
  readonly onChange: OnChange;
  /** Starts the informers and waits until each has listed its kind. Rejects with the names of the missing kinds after 2 minutes. */
  startCaches(signal?: AbortSignal): Promise<void>;
  /** Starts the controllers, after `startCaches`. */
  start(signal?: AbortSignal): Promise<void>;
  /**
   * The last reconciles of each controller, oldest first: causes, reads, writes and result. Kept in memory only. A probe server serves
   * them at `/debug/reconciles`.
   */
  reconciles(filter?: ReconcileFilter): readonly ReconcileRecord[];
  /** Resolves when the manager has stopped; rejects if it lost its lease or failed. */
  readonly done: Promise<void>;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
