import type { QueueMetrics } from "./work-queue.ts";

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

/** Where the runtime's figures go. See `createPrometheusMetrics`. */
export interface Metrics {
  controller(name: string, maxConcurrentReconciles: number): ControllerMetrics;
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
  leading: nothing,
  leaderSlowPath: nothing,
};
