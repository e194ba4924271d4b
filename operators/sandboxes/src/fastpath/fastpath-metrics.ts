import type { WarmStatus } from "@keelson/execution";

/** The warm slots of a pool's agents. */
export interface WarmPool {
  readonly namespace: string;
  readonly pool: string;
  readonly warm: WarmStatus;
}

/** Metrics of the fast path. */
export interface FastPathMetrics {
  /** Records a create: its mode, whether it succeeded, and its duration. */
  created(mode: "fast" | "strong", success: boolean, seconds: number): void;
  /** The metrics in Prometheus' text format 0.0.4. */
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

const name = "fastpath_create_sandbox_duration_seconds";

/** Upper bounds in seconds: the original's. */
const buckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1] as const;

interface Series {
  /** Count per bucket, not cumulative; the last is for values above every bound. */
  readonly counts: number[];
  sum: number;
}

interface WarmMetric {
  readonly name: string;
  readonly help: string;
  readonly values: (warm: WarmStatus) => readonly (readonly [labels: string, value: number])[];
}

/** Sums over the reporting agents of a pool: they restart with their agents, so all are gauges. */
const warmMetrics: readonly WarmMetric[] = [
  {
    name: "sandbox_warm_slots",
    help: "Warm slots of a pool by kind and state",
    values: (warm) =>
      (["shells", "images"] as const).flatMap((kind) =>
        (["desired", "ready"] as const).map(
          (state) => [`kind="${kind === "shells" ? "shell" : "image"}",state="${state}"`, warm[kind][state]] as const,
        ),
      ),
  },
  {
    name: "sandbox_warm_starts",
    help: "Sandboxes started by the current agents of a pool, by the kind of slot; cold means without",
    values: ({ starts }) => Object.entries(starts).map(([start, count]) => [`start="${start}"`, count] as const),
  },
  {
    name: "sandbox_warm_hit_ratio",
    help: "Share of the sandboxes that started in a warm slot",
    values: ({ starts: { cold, shell, image } }) => {
      const all = cold + shell + image;
      return all === 0 ? [] : [["", (shell + image) / all]];
    },
  },
  {
    name: "sandbox_warm_refills",
    help: "Warm slots prepared by the current agents of a pool",
    values: ({ refills }) => [["", refills.count]],
  },
  {
    name: "sandbox_warm_refill_seconds",
    help: "Time that the current agents of a pool spent preparing warm slots",
    values: ({ refills }) => [["", refills.totalMs / 1000]],
  },
];

function* warmLines(pools: readonly WarmPool[]): Generator<string> {
  if (pools.length === 0) return;
  for (const { name: metric, help, values } of warmMetrics) {
    yield* [`# HELP ${metric} ${help}`, `# TYPE ${metric} gauge`];
    for (const { namespace, pool, warm } of pools) {
      for (const [labels, value] of values(warm))
        yield `${metric}{namespace="${namespace}",pool="${pool}"${labels === "" ? "" : `,${labels}`}} ${value}`;
    }
  }
}

/**
 * Creates the histogram `fastpath_create_sandbox_duration_seconds` with the original's labels `mode` and `success`, and gauges of the warm
 * slots.
 */
export function createFastPathMetrics(warmPools: () => readonly WarmPool[] = () => []): FastPathMetrics {
  const series = new Map<string, Series>();
  return {
    created(mode, success, seconds) {
      const labels = `mode="${mode}",success="${success}"`;
      const one = series.get(labels) ?? { counts: Array.from({ length: buckets.length + 1 }, () => 0), sum: 0 };
      series.set(labels, one);
      const found = buckets.findIndex((bound) => seconds <= bound);
      const index = found < 0 ? buckets.length : found;
      one.counts[index] = (one.counts[index] ?? 0) + 1;
      one.sum += seconds;
    },
    scrape() {
      const lines = [`# HELP ${name} Duration of CreateSandbox`, `# TYPE ${name} histogram`];
      for (const [labels, { counts, sum }] of series) {
        let total = 0;
        for (const [index, count] of counts.entries()) {
          total += count;
          lines.push(`${name}_bucket{${labels},le="${buckets[index] ?? "+Inf"}"} ${total}`);
        }
        lines.push(`${name}_sum{${labels}} ${sum}`, `${name}_count{${labels}} ${total}`);
      }
      lines.push(...warmLines(warmPools()));
      return Promise.resolve({ contentType: "text/plain; version=0.0.4; charset=utf-8", text: `${lines.join("\n")}\n` });
    },
  };
}
