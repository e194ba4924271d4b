/** One value of a metric. */
export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric with its values at the time of a scrape. */
export interface MetricFamily {
  /** Name in Prometheus' syntax. Counters end in `_total`. */
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge";
  readonly samples: readonly MetricSample[];
}

/** Reads metrics for one scrape. It must not take longer than a scrape's timeout. */
export type CollectMetrics = () => readonly MetricFamily[] | Promise<readonly MetricFamily[]>;

const errorsName = "keelson_metrics_collect_errors_total";

/** Metrics whose values are read on each scrape, in Prometheus' text format. A collector that fails costs only its own metrics. */
export class CollectedMetrics {
  readonly #collectors = new Set<CollectMetrics>();
  #errors = 0;

  /** Adds a collector. Returns the way to remove it. */
  add(collect: CollectMetrics): () => void {
    this.#collectors.add(collect);
    return () => void this.#collectors.delete(collect);
  }

  /** The exposition of all collectors; empty without any. */
  async text(): Promise<string> {
    if (this.#collectors.size === 0) return "";
    const results = await Promise.allSettled([...this.#collectors].map(async (collect) => collect()));
    const families = new Map<string, MetricFamily>();
    for (const result of results) {
      if (result.status === "rejected") this.#errors += 1;
      // A metric may have one header only, also if several collectors export it.
      else for (const family of result.value) families.set(family.name, merged(families.get(family.name), family));
    }
    const help = "Scrapes in which a collector of metrics failed";
    const errors: MetricFamily = { name: errorsName, help, type: "counter", samples: [{ labels: {}, value: this.#errors }] };
    return [...families.values(), errors].map(textOf).join("");
  }
}

const merged = (before: MetricFamily | undefined, family: MetricFamily): MetricFamily =>
  before === undefined ? family : { ...before, samples: [...before.samples, ...family.samples] };

function textOf({ name, help, type, samples }: MetricFamily): string {
  const lines = samples.map(({ labels, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text).replaceAll('"', '\\"')}"`);
    return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${numberOf(value)}\n`;
  });
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join("")}\n`;
}

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** Numbers in Go's syntax. */
function numberOf(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
