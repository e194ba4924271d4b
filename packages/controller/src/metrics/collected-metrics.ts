import type { Clock, Timer } from "@keelson/api-machinery/time";

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
/** Maximum time of a collector. Prometheus waits 10 s for a scrape by default. */
const collectTimeoutMs = 5000;

/** A metric whose samples are lines of the text format. */
interface RenderedFamily extends Omit<MetricFamily, "samples"> {
  readonly lines: readonly string[];
}

/** Options of {@link CollectedMetrics}. */
export interface CollectedMetricsOptions {
  readonly clock: Clock;
  /** Called when a collector fails. */
  readonly onError: (error: unknown) => void;
}

/** Metrics whose values are read on each scrape, in Prometheus' text format. A collector that fails or hangs costs only its own metrics. */
export class CollectedMetrics {
  readonly #collectors = new Set<CollectMetrics>();
  readonly #options: CollectedMetricsOptions;
  #errors = 0;

  constructor(options: CollectedMetricsOptions) {
    this.#options = options;
  }

  /** Adds a collector. Returns a function that stops the export. */
  add(collect: CollectMetrics): () => void {
    this.#collectors.add(collect);
    return () => void this.#collectors.delete(collect);
  }

  /** The exposition of all collectors; empty without any. */
  async text(): Promise<string> {
    if (this.#collectors.size === 0) return "";
    const results = await Promise.allSettled([...this.#collectors].map((collect) => this.#read(collect)));
    const families = new Map<string, RenderedFamily>();
    for (const result of results) {
      if (result.status === "rejected") {
        this.#errors += 1;
        this.#options.onError(result.reason);
      }
      // A metric may have one header only, even if several collectors export it.
      else for (const family of result.value) families.set(family.name, merged(families.get(family.name), family));
    }
    const help = "Scrapes in which a collector of metrics failed";
    const errors = rendered({ name: errorsName, help, type: "counter", samples: [{ labels: {}, value: this.#errors }] });
    return [...families.values(), errors].map(textOf).join("");
  }

  /** Reads and renders the metrics of one collector, so that a malformed sample is an error of its collector. */
  async #read(collect: CollectMetrics): Promise<readonly RenderedFamily[]> {
    const { clock } = this.#options;
    let timer: Timer | undefined;
    const timeout = new Promise<never>((_, reject) => {
      const onTimeout = (): void => reject(new Error(`a metrics collector did not return within ${collectTimeoutMs} ms`));
      timer = clock.setTimer(collectTimeoutMs, onTimeout, { background: true });
    });
    try {
      const families = await Promise.race([(async () => collect())(), timeout]);
      return families.map(rendered);
    } finally {
      timer?.cancel();
    }
  }
}

const merged = (before: RenderedFamily | undefined, family: RenderedFamily): RenderedFamily =>
  before === undefined ? family : { ...before, lines: [...before.lines, ...family.lines] };

function rendered({ name, help, type, samples }: MetricFamily): RenderedFamily {
  const lines = samples.map(({ labels, value }) => {
    if (typeof value !== "number") throw new TypeError(`a value of ${name} is not a number`);
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${escaped(text).replaceAll('"', '\\"')}"`);
    return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${numberOf(value)}\n`;
  });
  return { name, help: escaped(help), type, lines };
}

function textOf({ name, help, type, lines }: RenderedFamily): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join("")}\n`;
}

const escaped = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

/** Numbers in Go's syntax. */
function numberOf(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}
