import type { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ControllerMetrics, Metrics } from "./metrics.ts";

/** The runtime's figures under controller-runtime's names, and how to give them out. */
export interface PrometheusMetrics extends Metrics {
  readonly registry: Registry;
  /** The text that a scrape answers, and its content type. */
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Distinct priorities that get a label of their own; priorities come from users' code, and every one is a series for ever. */
const longestPriorities = 25;

const reconcileBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3,
  3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];
const queueBuckets = Array.from({ length: 12 }, (_, power) => 1e-8 * 10 ** power);

interface Series {
  readonly reconciles: Counter;
  readonly errors: Counter;
  readonly terminalErrors: Counter;
  readonly panics: Counter;
  readonly timeouts: Counter;
  readonly seconds: Histogram;
  readonly maxConcurrent: Gauge;
  readonly active: Gauge;
  readonly depth: Gauge;
  readonly adds: Counter;
  readonly queueSeconds: Histogram;
  readonly workSeconds: Histogram;
  readonly retries: Counter;
}

/**
 * Makes metrics in `registry`, or in one of their own. Loads prom-client when it is called, so that who needs no metrics does
 * not wait for it.
 */
export async function createPrometheusMetrics(options: { readonly registry?: Registry } = {}): Promise<PrometheusMetrics> {
  const prom = await import("prom-client");
  const registry = options.registry ?? new prom.Registry();
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[]): Counter =>
    new prom.Counter({ name, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: string[], collect?: (this: Gauge) => void): Gauge =>
    new prom.Gauge({ name, help, labelNames, registers, ...(collect === undefined ? {} : { collect }) });
  const histogram = (name: string, help: string, labelNames: string[], buckets: number[]): Histogram =>
    new prom.Histogram({ name, help, labelNames, registers, buckets });

  const inProgress = new Map<string, () => readonly number[]>();
  const one = ["controller"];
  const queue = ["name", "controller"];
  const series: Series = {
    reconciles: counter("controller_runtime_reconcile_total", "Reconciles by result", ["controller", "result"]),
    errors: counter("controller_runtime_reconcile_errors_total", "Reconciles that failed", one),
    terminalErrors: counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed for good", one),
    panics: counter("controller_runtime_reconcile_panics_total", "Reconciles that failed by a mistake in their code", one),
    timeouts: counter("controller_runtime_reconcile_timeouts_total", "Reconciles that took longer than allowed", one),
    seconds: histogram("controller_runtime_reconcile_time_seconds", "Duration of a reconcile", one, reconcileBuckets),
    maxConcurrent: gauge("controller_runtime_max_concurrent_reconciles", "Reconciles that may run at once", one),
    active: gauge("controller_runtime_active_workers", "Reconciles that run", one),
    depth: gauge("workqueue_depth", "Items that are ready", [...queue, "priority"]),
    adds: counter("workqueue_adds_total", "Items that were added", queue),
    queueSeconds: histogram("workqueue_queue_duration_seconds", "Time from ready to handed out", queue, queueBuckets),
    workSeconds: histogram("workqueue_work_duration_seconds", "Time from handed out to done", queue, queueBuckets),
    retries: counter("workqueue_retries_total", "Items that were added with backoff", queue),
  };
  const eachQueue = (metric: Gauge, valueOf: (ms: readonly number[]) => number): void => {
    for (const [controller, read] of inProgress) metric.set({ name: controller, controller }, valueOf(read()) / 1000);
  };
  // Computed when they are asked for: between two scrapes nobody sees them.
  gauge("workqueue_unfinished_work_seconds", "Time that items have been handed out for, in sum", queue, function collect() {
    eachQueue(this, (ms) => ms.reduce((sum, each) => sum + each, 0));
  });
  gauge(
    "workqueue_longest_running_processor_seconds",
    "Time of the item that has been handed out longest",
    queue,
    function collect() {
      eachQueue(this, (ms) => ms.reduce((longest, each) => Math.max(longest, each), 0));
    },
  );
  const leader = gauge("leader_election_master_status", "Whether this process leads", ["name"]);
  const slowPath = counter("leader_election_slowpath_total", "Renewals that had to read the lease first", ["name"]);

  return {
    registry,
    controller: (name, maxConcurrent) => controllerMetrics(series, name, maxConcurrent, (read) => inProgress.set(name, read)),
    leading: (name, isLeader) => leader.set({ name }, isLeader ? 1 : 0),
    leaderSlowPath: (name) => slowPath.inc({ name }),
    scrape: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

/** One controller's figures. Every series is there from the start, at 0: a rate over one that appears late misses its first. */
function controllerMetrics(
  series: Series,
  controller: string,
  maxConcurrent: number,
  watchInProgress: (read: () => readonly number[]) => void,
): ControllerMetrics {
  const queue = { name: controller, controller };
  const results = {
    success: series.reconciles.labels(controller, "success"),
    error: series.reconciles.labels(controller, "error"),
    requeue_after: series.reconciles.labels(controller, "requeue_after"),
    requeue: series.reconciles.labels(controller, "requeue"),
  };
  for (const result of Object.values(results)) result.inc(0);
  const errors = series.errors.labels(controller);
  const terminalErrors = series.terminalErrors.labels(controller);
  const panics = series.panics.labels(controller);
  const timeouts = series.timeouts.labels(controller);
  const adds = series.adds.labels(controller, controller);
  const retries = series.retries.labels(controller, controller);
  for (const counter of [errors, terminalErrors, panics, timeouts, adds, retries]) counter.inc(0);
  series.maxConcurrent.set({ controller }, maxConcurrent);
  const active = series.active.labels(controller);
  active.set(0);
  const seconds = series.seconds.labels(controller);
  const queueSeconds = series.queueSeconds.labels(controller, controller);
  const workSeconds = series.workSeconds.labels(controller, controller);
  series.queueSeconds.zero(queue);
  series.workSeconds.zero(queue);
  series.seconds.zero({ controller });
  const priorities = new Map<number, Gauge.Internal<string>>();
  const depthOf = (priority: number): Gauge.Internal<string> => {
    let depth = priorities.get(priority);
    if (depth === undefined) {
      const label = priorities.size < longestPriorities ? String(priority) : "exceeded_cardinality_limit";
      depth = series.depth.labels(controller, controller, label);
      if (priorities.size < longestPriorities) priorities.set(priority, depth);
    }
    return depth;
  };
  depthOf(0).set(0);
  return {
    added: () => adds.inc(),
    depthChanged: (priority, by) => depthOf(priority).inc(by),
    waited: (ms) => queueSeconds.observe(ms / 1000),
    worked: (ms) => workSeconds.observe(ms / 1000),
    retried: () => retries.inc(),
    reconciled(result, ms) {
      results[result].inc();
      if (result === "error") errors.inc();
      seconds.observe(ms / 1000);
    },
    terminalError: () => terminalErrors.inc(),
    panicked: () => panics.inc(),
    timedOut: () => timeouts.inc(),
    activeWorkers: (by) => active.inc(by),
    watchInProgress,
  };
}
