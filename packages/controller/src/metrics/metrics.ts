import type { QueueMetrics } from "../queue/work-queue.ts";

/** How a reconcile ended: the `result` label. */
export type ReconcileResult = "success" | "error" | "requeue_after";

/** What a controller tells about itself. */
export interface ControllerMetrics extends QueueMetrics {
  reconciled(result: ReconcileResult, ms: number): void;
  terminalError(): void;
  /** A reconcile threw what only a mistake in it throws (TypeError and the like). */
  panicked(): void;
  timedOut(): void;
  activeWorkers(by: number): void;
  /** For the gauges that are computed when they are asked for: how long each running item has run, in ms. */
  watchInProgress(read: () => readonly number[]): void;
}

/** What the cache has of one kind. */
export interface CacheFigures {
  /** Plural, version and group: `pods.v1.`. */
  readonly kind: string;
  readonly objects: number;
  /** Time since the server last sent a list, an event or a bookmark; with several namespaces the longest. */
  readonly staleMs: number;
  /** Watches opened so far: all beyond the first were opened anew. */
  readonly watches: number;
}

/** Where the runtime's figures go. See `createPrometheusMetrics`. */
export interface Metrics {
  controller(name: string, maxConcurrentReconciles: number): ControllerMetrics;
  /** For the gauges that are computed when they are asked for: what the cache has. */
  watchCache(read: () => readonly CacheFigures[]): void;
  /** Whether this process leads under the lease of this name. */
  leading(name: string, isLeader: boolean): void;
  /** A renewal of the lease that had to read it first. */
  leaderSlowPath(name: string): void;
}

const nothing = (): void => {};

/** Metrics that nobody reads. */
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
