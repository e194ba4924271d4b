import { monitorEventLoopDelay } from "node:perf_hooks";
import type { RawOutcome } from "../endpoints/outcome.ts";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { LevelUsage } from "../flowcontrol/flow-controller.ts";

/** Upper bounds of the buckets of request durations in seconds. A part of kube-apiserver's. */
const buckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 1, 2, 5, 10, 30, 60];

interface Histogram {
  readonly counts: number[];
  sum: number;
  count: number;
}

/** Sources of gauges. */
export interface MetricsSources {
  /** Seats and queued requests by priority level. */
  readonly flow?: () => ReadonlyMap<string, LevelUsage>;
  /** Number of open watches. */
  readonly watches?: () => number;
  /** Revision of the storage. */
  readonly revision?: () => number;
}

/** Maximum number of time series per metric; further ones are counted together. */
const maxSeries = 2_000;

/** The metrics of an API server under kube-apiserver's names, in the text format of Prometheus. */
export class ApiServerMetrics {
  readonly #requests = new Map<string, number>();
  readonly #durations = new Map<string, Histogram>();
  readonly #loop = monitorEventLoopDelay({ resolution: 20 });
  #sources: MetricsSources = {};

  constructor() {
    this.#loop.enable();
  }

  /** Sets the sources of gauges. */
  observe(sources: MetricsSources): void {
    this.#sources = { ...this.#sources, ...sources };
  }

  /** Counts a request. `durationMs` is undefined for watches and streams. */
  record(info: RequestInfo, code: number, durationMs: number | undefined): void {
    const labels = info.isResource
      ? `group="${escape(info.group)}",resource="${escape(info.resource)}",subresource="${escape(info.subresource)}",verb="${info.verb.toUpperCase()}",version="${escape(info.version)}"`
      : `group="",resource="",subresource="",verb="${escape(info.verb.toUpperCase())}",version=""`;
    increment(this.#requests, `code="${code}",${labels}`);
    if (durationMs === undefined) return;
    const key = this.#durations.has(labels) || this.#durations.size < maxSeries ? labels : 'verb="OTHER"';
    let histogram = this.#durations.get(key);
    if (histogram === undefined) {
      this.#durations.set(key, (histogram = { counts: buckets.map(() => 0), sum: 0, count: 0 }));
    }
    const seconds = durationMs / 1000;
    for (const [index, bound] of buckets.entries()) {
      if (seconds <= bound) histogram.counts[index] = (histogram.counts[index] ?? 0) + 1;
    }
    histogram.sum += seconds;
    histogram.count++;
  }

  /** Serves `/metrics`. */
  serve(): RawOutcome {
    const headers = { "content-type": "text/plain; version=0.0.4; charset=utf-8" };
    return { kind: "raw", status: 200, headers, body: `${[...this.#lines()].join("\n")}\n` };
  }

  close(): void {
    this.#loop.disable();
  }

  *#lines(): Generator<string> {
    const total = "apiserver_request_total";
    yield* head(total, "counter", "Number of requests by verb, group, version, resource, subresource and code.");
    for (const [labels, count] of this.#requests) yield `${total}{${labels}} ${count}`;
    const duration = "apiserver_request_duration_seconds";
    yield* head(duration, "histogram", "Time to serve a request, without watches.");
    for (const [labels, { counts, sum, count }] of this.#durations) {
      for (const [index, bound] of buckets.entries()) yield `${duration}_bucket{${labels},le="${bound}"} ${counts[index] ?? 0}`;
      yield `${duration}_bucket{${labels},le="+Inf"} ${count}`;
      yield `${duration}_sum{${labels}} ${sum}`;
      yield `${duration}_count{${labels}} ${count}`;
    }
    yield* this.#gauges();
  }

  *#gauges(): Generator<string> {
    const { flow, watches, revision } = this.#sources;
    if (watches !== undefined) {
      yield* head("apiserver_longrunning_requests", "gauge", "Number of open watches.");
      yield `apiserver_longrunning_requests{verb="WATCH"} ${watches()}`;
    }
    if (flow !== undefined) {
      const levels = flow();
      yield* levelGauge("current_executing_seats", "Occupied seats by priority level.", levels, ({ occupied }) => occupied);
      yield* levelGauge("current_inqueue_requests", "Queued requests by priority level.", levels, ({ waiting }) => waiting);
      yield* levelGauge("current_limit_seats", "Seats by priority level, with borrowed ones.", levels, ({ seats }) => seats);
      const nominal = "Seats by priority level, without borrowed ones.";
      yield* levelGauge("nominal_limit_seats", nominal, levels, ({ nominalSeats }) => nominalSeats);
    }
    if (revision !== undefined) {
      yield* head("keelson_storage_revision", "gauge", "The current resourceVersion.");
      yield `keelson_storage_revision ${revision()}`;
    }
    yield* head("nodejs_eventloop_delay_max_seconds", "gauge", "Longest delay of the event loop since the last scrape.");
    yield `nodejs_eventloop_delay_max_seconds ${this.#loop.max / 1e9}`;
    this.#loop.reset();
    yield* head("process_resident_memory_bytes", "gauge", "Resident memory.");
    yield `process_resident_memory_bytes ${process.memoryUsage.rss()}`;
  }
}

function increment(counters: Map<string, number>, labels: string): void {
  const key = counters.has(labels) || counters.size < maxSeries ? labels : 'verb="OTHER"';
  counters.set(key, (counters.get(key) ?? 0) + 1);
}

function* levelGauge(
  name: string,
  help: string,
  levels: ReadonlyMap<string, LevelUsage>,
  valueOf: (usage: LevelUsage) => number,
): Generator<string> {
  yield* head(`apiserver_flowcontrol_${name}`, "gauge", help);
  for (const [level, usage] of levels) {
    yield `apiserver_flowcontrol_${name}{priority_level="${escape(level)}"} ${valueOf(usage)}`;
  }
}

function* head(name: string, type: string, help: string): Generator<string> {
  yield `# HELP ${name} ${help}`;
  yield `# TYPE ${name} ${type}`;
}

function escape(value: string): string {
  return value.replaceAll(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
