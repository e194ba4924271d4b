import { monitorEventLoopDelay } from "node:perf_hooks";
import { AuditMetrics } from "../audit/audit-metrics.ts";
import type { RawOutcome } from "../endpoints/outcome.ts";
import type { RequestInfo } from "../endpoints/request-info.ts";
import type { LevelUsage } from "../flowcontrol/flow-controller.ts";
import { Counter, escapeLabel, head, Histogram } from "./histogram.ts";
import { AdmissionWebhookMetrics } from "./webhook-metrics.ts";

/** Upper bounds of the buckets of request durations in seconds. A part of kube-apiserver's. */
const buckets = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 1, 2, 5, 10, 30, 60];

/** Sources of gauges. */
export interface MetricsSources {
  /** Seats and queued requests by priority level. */
  readonly flow?: () => ReadonlyMap<string, LevelUsage>;
  /** Number of open watches. */
  readonly watches?: () => number;
  /** Revision of the storage. */
  readonly revision?: () => number;
}

/** The metrics of an API server under kube-apiserver's names, in the text format of Prometheus. */
export class ApiServerMetrics {
  readonly #requests = new Counter(
    "apiserver_request_total",
    "Number of requests by verb, group, version, resource, subresource and code.",
  );
  readonly #durations = new Histogram(
    "apiserver_request_duration_seconds",
    "Time to serve a request, without watches.",
    buckets,
  );
  /** Receives the figures of the audit log. */
  readonly audit = new AuditMetrics();
  /** Receives the results of webhook calls. */
  readonly webhooks = new AdmissionWebhookMetrics();
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
      ? `group="${escapeLabel(info.group)}",resource="${escapeLabel(info.resource)}",subresource="${escapeLabel(info.subresource)}",verb="${info.verb.toUpperCase()}",version="${escapeLabel(info.version)}"`
      : `group="",resource="",subresource="",verb="${escapeLabel(info.verb.toUpperCase())}",version=""`;
    this.#requests.increment(`code="${code}",${labels}`);
    if (durationMs !== undefined) this.#durations.observe(labels, durationMs / 1000);
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
    yield* this.#requests.lines();
    yield* this.#durations.lines();
    yield* this.webhooks.lines();
    yield* this.audit.lines();
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

function* levelGauge(
  name: string,
  help: string,
  levels: ReadonlyMap<string, LevelUsage>,
  valueOf: (usage: LevelUsage) => number,
): Generator<string> {
  yield* head(`apiserver_flowcontrol_${name}`, "gauge", help);
  for (const [level, usage] of levels) {
    yield `apiserver_flowcontrol_${name}{priority_level="${escapeLabel(level)}"} ${valueOf(usage)}`;
  }
}
