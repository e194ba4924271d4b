import type { QueueMetrics } from "../queue/work-queue.ts";
import type { CollectMetrics } from "./collected-metrics.ts";
import type { WebhookMetrics } from "./webhook-metrics.ts";

/** The `result` label of a reconcile. */
export type ReconcileResult = "success" | "error" | "requeue_after";

/** Metrics of one controller. */
export interface ControllerMetrics extends QueueMetrics {
  reconciled(result: ReconcileResult, ms: number): void;
  terminalError(): void;
  /** A reconcile threw an error that indicates a bug, such as a TypeError. */
  panicked(): void;
  timedOut(): void;
  activeWorkers(by: number): void;
  /** Registers a function that returns how long each running item has run, in ms. It is called on collection. */
  watchInProgress(read: () => readonly number[]): void;
}

/** Cache metrics of one kind. */
export interface CacheMetrics {
  /** Plural, version and group: `pods.v1.`. */
  readonly kind: string;
  readonly objects: number;
  /** Time since the last list, event or bookmark; the maximum over namespaces. */
  readonly staleMs: number;
  /** Number of watches opened so far. */
  readonly watches: number;
}

/** Metrics of the runtime. See `createPrometheusMetrics`. */
export interface Metrics {
  controller(name: string, maxConcurrentReconciles: number): ControllerMetrics;
  /** Registers a function that returns the metrics of a cache. It is called on collection. */
  watchCache(read: () => readonly CacheMetrics[]): void;
  /** Whether this process holds the lease of this name. */
  leading(name: string, isLeader: boolean): void;
  /** A renewal of the lease that had to read it first. */
  leaderSlowPath(name: string): void;
  /** Metrics of the webhook at a path. Absent: they are discarded. */
  webhook?(path: string): WebhookMetrics;
  /** Exports metrics that are read on each scrape. Returns a function that stops the export. Absent: they are discarded. */
  collect?(read: CollectMetrics): () => void;
}

const nothing = (): void => {};

/** Metrics that are discarded. */
export const noMetrics: Metrics = {
  controller: () => ({
    added: nothing,
    depthChanged: nothing,
    waited: nothing,
    worked: nothing,
    retried: nothing,
    reconciled: nothing,
    terminalError: nothing,
    panicked: nothing,
    timedOut: nothing,
    activeWorkers: nothing,
    watchInProgress: nothing,
  }),
  watchCache: nothing,
  leading: nothing,
  leaderSlowPath: nothing,
};
