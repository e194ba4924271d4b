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

/** Creates the histogram `fastpath_create_sandbox_duration_seconds` with the original's labels `mode` and `success`. */
export function createFastPathMetrics(): FastPathMetrics {
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
      return Promise.resolve({ contentType: "text/plain; version=0.0.4; charset=utf-8", text: `${lines.join("\n")}\n` });
    },
  };
}
