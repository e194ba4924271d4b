import type { Clock } from "@keelson/api-machinery/time";
import type { MetricFamily } from "@keelson/controller/metrics";
import type { AgentClient } from "../agent/agent-client.ts";
import type { AgentAccess } from "../controllers/agent-access.ts";
import { programMetrics, type ReportedMetrics } from "./program-metrics.ts";

/** A Pod whose program is monitored. */
export interface MonitoredPod {
  /** `namespace`, `app`, `component`, `group` and `pod`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly ip: string;
  readonly access: AgentAccess;
  /** Minimum time between two reads. Scrapes in between get the same values. */
  readonly intervalMs: number;
}

interface Reading {
  readonly ip: string;
  readonly atMs: number;
  readonly report: ReportedMetrics;
}

/** Reads the metrics of programs on scrapes, at most once per interval and Pod. */
export class ProgramMetricsReader {
  readonly #agents: Pick<AgentClient, "metrics">;
  readonly #clock: Clock;
  #readings = new Map<string, Reading>();

  constructor(agents: Pick<AgentClient, "metrics">, clock: Clock) {
    this.#agents = agents;
    this.#clock = clock;
  }

  /** Asks all Pods at the same time. Those that do not respond in time are left out. */
  async read(pods: readonly MonitoredPod[]): Promise<readonly MetricFamily[]> {
    const readings = await Promise.all(pods.map((pod) => this.#readingOf(pod)));
    // Readings of Pods that are no longer monitored are dropped, and those that no later scrape uses are not kept.
    this.#readings = new Map(
      readings.flatMap((reading, index) =>
        reading === undefined || pods[index]?.intervalMs === 0 ? [] : [[keyOf(reading.report.pod), reading] as const],
      ),
    );
    return programMetrics(readings.flatMap((reading) => (reading === undefined ? [] : [reading.report])));
  }

  async #readingOf({ labels, ip, access, intervalMs }: MonitoredPod): Promise<Reading | undefined> {
    const last = this.#readings.get(keyOf(labels));
    const atMs = this.#clock.monotonic();
    if (last !== undefined && last.ip === ip && atMs - last.atMs < intervalMs) return last;
    const families = await this.#agents.metrics(ip, access);
    return families === undefined ? undefined : { ip, atMs, report: { pod: labels, families } };
  }
}

const keyOf = ({ namespace, pod }: Readonly<Record<string, string>>): string => `${namespace}/${pod}`;
