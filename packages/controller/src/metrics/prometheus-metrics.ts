import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Transport } from "@keelson/api-machinery/transport";
import { observeRequests } from "@keelson/client";
import type { Gauge, Registry } from "prom-client";
import type { AccumulatedHistogram, AccumulatedNumber, Accumulator } from "./accumulated-metrics.ts";
import { CollectedMetrics } from "./collected-metrics.ts";
import type { CacheMetrics, ControllerMetrics, Metrics } from "./metrics.ts";
import { requestMeter, type RequestSeries } from "./request-series.ts";
import { webhookMetrics, type WebhookSeries } from "./webhook-metrics.ts";

/** Metrics of the runtime under controller-runtime's names. */
export interface PrometheusMetrics extends Metrics {
  readonly registry: Registry;
  /**
   * A transport whose requests are counted under client-go's names, as requests to `host`. Watches are counted when they
   * are opened.
   */
  measured(transport: Transport, host: string): Transport;
  /** The response to a scrape. */
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Options of {@link createPrometheusMetrics}. */
export interface PrometheusMetricsOptions {
  /** Default: a new registry. */
  readonly registry?: Registry;
  /** Measures durations of requests and limits those of scrapes. Default: the system clock. */
  readonly clock?: Clock;
  /**
   * Adds prom-client's metrics of the process, among them `nodejs_eventloop_lag_seconds`: a blocked event loop does not renew a
   * lease. Once per registry. Default false.
   */
  readonly processFigures?: boolean;
  /** Called when a function passed to `collect` fails, which costs a scrape only its metrics. Default: the failure is only counted. */
  readonly onCollectError?: (error: unknown) => void;
}

/** Maximum number of distinct priority labels. Priorities come from user code, and every one would be a permanent series. */
const maxPriorities = 25;

const reconcileBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3,
  3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
];
/** As in client-go. */
const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
/** As in client-go, in both directions. */
const sizeBuckets = [64, 256, 512, 1024, ...Array.from({ length: 7 }, (_, power) => 4096 * 4 ** power)];
const queueBuckets = Array.from({ length: 12 }, (_, power) => 1e-8 * 10 ** power);

interface Series {
  readonly reconciles: AccumulatedNumber;
  readonly errors: AccumulatedNumber;
  readonly terminalErrors: AccumulatedNumber;
  readonly panics: AccumulatedNumber;
  readonly timeouts: AccumulatedNumber;
  readonly seconds: AccumulatedHistogram;
  readonly maxConcurrent: AccumulatedNumber;
  readonly active: AccumulatedNumber;
  readonly depth: AccumulatedNumber;
  readonly adds: AccumulatedNumber;
  readonly queueSeconds: AccumulatedHistogram;
  readonly workSeconds: AccumulatedHistogram;
  readonly retries: AccumulatedNumber;
}

/**
 * Creates metrics in `registry`, or in a new one. Loads prom-client when it is called, so that programs without metrics do
 * not load it.
 */
export async function createPrometheusMetrics(options: PrometheusMetricsOptions = {}): Promise<PrometheusMetrics> {
  const { clock = systemClock, onCollectError = () => {} } = options;
  const [prom, accumulated] = await Promise.all([import("prom-client"), import("./accumulated-metrics.ts")]);
  const registry = options.registry ?? new prom.Registry();
  if (options.processFigures) {
    // Coarser than prom-client's 10 ms: only lags of seconds matter here, and an idle process is not woken up as often.
    prom.collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  }
  const define: Definitions = {
    counter: (name, help, labelNames) => new accumulated.AccumulatedNumber("counter", { name, help, labelNames, registry }),
    gauge: (name, help, labelNames) => new accumulated.AccumulatedNumber("gauge", { name, help, labelNames, registry }),
    histogram: (name, help, labelNames, buckets) =>
      new accumulated.AccumulatedHistogram({ name, help, labelNames, registry, buckets }),
    computed: (name, help, labelNames, collect) =>
      void new prom.Gauge({
        ...{ name, help, labelNames: [...labelNames], registers: [registry] },
        collect() {
          collect(this);
        },
      }),
  };
  const series = controllerSeries(define);
  const inProgress = new Map<string, () => readonly number[]>();
  defineQueueGauges(define, inProgress);
  const caches: (() => readonly CacheMetrics[])[] = [];
  defineCacheGauges(define, caches);
  const measure = requestMeter(requestSeries(define));
  const webhooks = webhookSeries(define);
  const collected = new CollectedMetrics({ clock, onError: onCollectError });
  const leader = define.gauge("leader_election_master_status", "Whether this process leads", ["name"]);
  const slowPath = define.counter("leader_election_slowpath_total", "Renewals that had to read the lease first", ["name"]);
  const leases = new Map<string, { readonly leads: Accumulator; readonly slow: Accumulator }>();
  const leaseOf = (name: string): { readonly leads: Accumulator; readonly slow: Accumulator } => {
    let lease = leases.get(name);
    if (lease === undefined) leases.set(name, (lease = { leads: leader.child(name), slow: slowPath.child(name) }));
    return lease;
  };
  return {
    registry,
    controller: (name, maxConcurrent) => controllerMetrics(series, name, maxConcurrent, (read) => inProgress.set(name, read)),
    measured: (transport, host) => observeRequests(transport, clock, (request, outcome) => measure(request, host, outcome)),
    watchCache: (read) => void caches.push(read),
    leading: (name, isLeader) => {
      leaseOf(name).leads.value = isLeader ? 1 : 0;
    },
    leaderSlowPath: (name) => {
      leaseOf(name).slow.value++;
    },
    webhook: (path) => webhookMetrics(webhooks, path),
    collect: (read) => collected.add(read),
    scrape: async () => {
      const [own, more] = await Promise.all([registry.metrics(), collected.text()]);
      return { contentType: registry.contentType, text: `${own}${more}` };
    },
  };
}

/** Defines metrics in one registry. */
interface Definitions {
  counter(name: string, help: string, labelNames: readonly string[]): AccumulatedNumber;
  gauge(name: string, help: string, labelNames: readonly string[]): AccumulatedNumber;
  histogram(name: string, help: string, labelNames: readonly string[], buckets: readonly number[]): AccumulatedHistogram;
  /** A gauge whose values are set on collection. */
  computed(name: string, help: string, labelNames: readonly string[], collect: (gauge: Gauge) => void): void;
}

const queueLabels = ["name", "controller"];

function controllerSeries({ counter, gauge, histogram }: Definitions): Series {
  const one = ["controller"];
  return {
    reconciles: counter("controller_runtime_reconcile_total", "Reconciles by result", ["controller", "result"]),
    errors: counter("controller_runtime_reconcile_errors_total", "Reconciles that failed", one),
    terminalErrors: counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed permanently", one),
    panics: counter("controller_runtime_reconcile_panics_total", "Reconciles that failed because of a bug", one),
    timeouts: counter("controller_runtime_reconcile_timeouts_total", "Reconciles that exceeded their timeout", one),
    seconds: histogram("controller_runtime_reconcile_time_seconds", "Duration of a reconcile", one, reconcileBuckets),
    maxConcurrent: gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles", one),
    active: gauge("controller_runtime_active_workers", "Running reconciles", one),
    depth: gauge("workqueue_depth", "Ready items", [...queueLabels, "priority"]),
    adds: counter("workqueue_adds_total", "Added items", queueLabels),
    queueSeconds: histogram("workqueue_queue_duration_seconds", "Time from ready to start of work", queueLabels, queueBuckets),
    workSeconds: histogram("workqueue_work_duration_seconds", "Time from start of work to done", queueLabels, queueBuckets),
    retries: counter("workqueue_retries_total", "Items added with backoff", queueLabels),
  };
}

function requestSeries({ counter, histogram }: Definitions): RequestSeries {
  const labels = ["verb", "host"];
  return {
    requests: counter("rest_client_requests_total", "Requests by code and method", ["code", "method", "host"]),
    retries: counter("rest_client_request_retries_total", "Retried requests", ["code", ...labels]),
    seconds: histogram("rest_client_request_duration_seconds", "Time to the response", labels, requestBuckets),
    sentBytes: histogram("rest_client_request_size_bytes", "Size of the request body", labels, sizeBuckets),
    receivedBytes: histogram("rest_client_response_size_bytes", "Size of the response body", labels, sizeBuckets),
  };
}

function webhookSeries({ counter, gauge, histogram }: Definitions): WebhookSeries {
  const one = ["webhook"];
  return {
    requests: counter("controller_runtime_webhook_requests_total", "Webhook requests by status", ["webhook", "code"]),
    inFlight: gauge("controller_runtime_webhook_requests_in_flight", "Webhook requests in progress", one),
    panics: counter("controller_runtime_webhook_panics_total", "Webhook requests that failed because of a bug", []),
    seconds: histogram("controller_runtime_webhook_latency_seconds", "Duration of a webhook request", one, requestBuckets),
  };
}

/** Gauges of unfinished work, computed on collection. */
function defineQueueGauges({ computed }: Definitions, inProgress: ReadonlyMap<string, () => readonly number[]>): void {
  const eachQueue = (metric: Gauge, valueOf: (ms: readonly number[]) => number): void => {
    for (const [controller, read] of inProgress) metric.set({ name: controller, controller }, valueOf(read()) / 1000);
  };
  const unfinished = "Total time that unfinished items have been worked on";
  computed("workqueue_unfinished_work_seconds", unfinished, queueLabels, (gauge) =>
    eachQueue(gauge, (ms) => ms.reduce((sum, each) => sum + each, 0)),
  );
  const oldest = "Time that the oldest unfinished item has been worked on";
  computed("workqueue_longest_running_processor_seconds", oldest, queueLabels, (gauge) =>
    eachQueue(gauge, (ms) => ms.reduce((max, each) => Math.max(max, each), 0)),
  );
}

/** Gauges of caches, computed on collection. Several managers of one process may cache the same kind. */
function defineCacheGauges({ computed }: Definitions, caches: readonly (() => readonly CacheMetrics[])[]): void {
  const eachKind = (
    metric: Gauge,
    valueOf: (kind: CacheMetrics) => number,
    combine: (a: number, b: number) => number,
  ): void => {
    const values = new Map<string, number>();
    for (const each of caches.flatMap((read) => read())) {
      const known = values.get(each.kind);
      values.set(each.kind, known === undefined ? valueOf(each) : combine(known, valueOf(each)));
    }
    // Stopped caches are no longer reported.
    metric.reset();
    for (const [kind, value] of values) metric.set({ kind }, value);
  };
  const sum = (a: number, b: number): number => a + b;
  computed("keelson_cache_objects", "Objects in the cache", ["kind"], (gauge) =>
    eachKind(gauge, ({ objects }) => objects, sum),
  );
  computed("keelson_cache_staleness_seconds", "Time since the server last sent something", ["kind"], (gauge) =>
    eachKind(gauge, ({ staleMs }) => staleMs / 1000, Math.max),
  );
  computed("keelson_cache_watches", "Watches opened so far", ["kind"], (gauge) =>
    eachKind(gauge, ({ watches }) => watches, sum),
  );
}

/** Metrics of one controller. Every series exists from the start with the value 0: a rate over a series that appears later misses its first increase. */
function controllerMetrics(
  series: Series,
  controller: string,
  maxConcurrent: number,
  watchInProgress: (read: () => readonly number[]) => void,
): ControllerMetrics {
  const results = {
    success: series.reconciles.child(controller, "success"),
    error: series.reconciles.child(controller, "error"),
    requeue_after: series.reconciles.child(controller, "requeue_after"),
    requeue: series.reconciles.child(controller, "requeue"),
  };
  const errors = series.errors.child(controller);
  const terminalErrors = series.terminalErrors.child(controller);
  const panics = series.panics.child(controller);
  const timeouts = series.timeouts.child(controller);
  const adds = series.adds.child(controller, controller);
  const retries = series.retries.child(controller, controller);
  series.maxConcurrent.child(controller).value = maxConcurrent;
  const active = series.active.child(controller);
  const seconds = series.seconds.child(controller);
  const queueSeconds = series.queueSeconds.child(controller, controller);
  const workSeconds = series.workSeconds.child(controller, controller);
  const priorities = new Map<number, Accumulator>();
  let others: Accumulator | undefined;
  const depthOf = (priority: number): Accumulator => {
    const known = priorities.get(priority);
    if (known !== undefined) return known;
    if (priorities.size >= maxPriorities) {
      others ??= series.depth.child(controller, controller, "exceeded_cardinality_limit");
      return others;
    }
    const depth = series.depth.child(controller, controller, String(priority));
    priorities.set(priority, depth);
    return depth;
  };
  depthOf(0);
  return {
    added: () => void adds.value++,
    depthChanged: (priority, by) => void (depthOf(priority).value += by),
    waited: (ms) => queueSeconds.observe(ms / 1000),
    worked: (ms) => workSeconds.observe(ms / 1000),
    retried: () => void retries.value++,
    reconciled(result, ms) {
      results[result].value++;
      if (result === "error") errors.value++;
      seconds.observe(ms / 1000);
    },
    terminalError: () => void terminalErrors.value++,
    panicked: () => void panics.value++,
    timedOut: () => void timeouts.value++,
    activeWorkers: (by) => void (active.value += by),
    watchInProgress,
  };
}
