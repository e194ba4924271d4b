import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/*
 * prom-client looks up labels on every call, which costs more than a no-op reconcile. These metrics count in plain
 * fields and pass them to prom-client when it collects.
 */

/** Options of a metric. `child` takes label values in the order of `labelNames`. */
export interface MetricOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registry: Registry;
}

/** The value of one series. */
export interface Accumulator {
  value: number;
}

/** A counter or gauge. {@link child} returns the value of a series. */
export class AccumulatedNumber {
  readonly #children = new Map<string, { readonly labels: Readonly<Record<string, string>>; readonly field: Accumulator }>();
  readonly #labelNames: readonly string[];

  constructor(kind: "counter" | "gauge", options: MetricOptions) {
    const { name, help, registry } = options;
    this.#labelNames = options.labelNames;
    const children = this.#children;
    const shared = { name, help, labelNames: [...options.labelNames], registers: [registry] };
    if (kind === "gauge") {
      new Gauge({
        ...shared,
        collect() {
          for (const { labels, field } of children.values()) this.set(labels, field.value);
        },
      });
      return;
    }
    new Counter({
      ...shared,
      collect() {
        this.reset();
        for (const { labels, field } of children.values()) this.inc(labels, field.value);
      },
    });
  }

  /** The series with these label values. It is created with the value 0 on the first call. */
  child(...values: readonly string[]): Accumulator {
    const known = this.#children.get(JSON.stringify(values));
    if (known !== undefined) return known.field;
    const field = { value: 0 };
    this.#children.set(JSON.stringify(values), { labels: labelsOf(this.#labelNames, values), field });
    return field;
  }
}

/** Observations of one series. */
export class Distribution {
  readonly bounds: readonly number[];
  /** Count of each bucket, not cumulative. The last one counts values above every bound. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    let low = 0;
    let high = this.bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (value <= (this.bounds[middle] ?? Number.POSITIVE_INFINITY)) high = middle;
      else low = middle + 1;
    }
    this.counts[low] = (this.counts[low] ?? 0) + 1;
    this.sum += value;
  }
}

/** A histogram. {@link child} returns a series to observe values in. */
export class AccumulatedHistogram extends Histogram {
  readonly #children = new Map<
    string,
    { readonly labels: Readonly<Record<string, string>>; readonly distribution: Distribution }
  >();
  readonly #options: MetricOptions & { readonly buckets: readonly number[] };

  constructor(options: MetricOptions & { readonly buckets: readonly number[] }) {
    const { name, help, labelNames, registry, buckets } = options;
    super({ name, help, labelNames: [...labelNames], registers: [registry], buckets: [...buckets] });
    this.#options = options;
  }

  /** As {@link AccumulatedNumber.child}. Prometheus rejects a text with a duplicate series. */
  child(...values: readonly string[]): Distribution {
    const known = this.#children.get(JSON.stringify(values));
    if (known !== undefined) return known.distribution;
    const distribution = new Distribution(this.#options.buckets);
    this.#children.set(JSON.stringify(values), { labels: labelsOf(this.#options.labelNames, values), distribution });
    return distribution;
  }

  /** prom-client 15 calls this for its text format and in `get`. It is not in its types. */
  getForPromString() {
    const { name, help } = this.#options;
    const values = [...this.#children.values()].flatMap(({ labels, distribution }) => this.#values(labels, distribution));
    return Promise.resolve({ name, help, type: "histogram", aggregator: "sum", values });
  }

  #values(labels: Readonly<Record<string, string>>, { bounds, counts, sum }: Distribution) {
    let count = 0;
    const buckets = [...bounds, "+Inf"].map((le, index) => {
      count += counts[index] ?? 0;
      return { metricName: `${this.#options.name}_bucket`, labels: { le }, sharedLabels: labels, value: count };
    });
    return [
      ...buckets,
      { metricName: `${this.#options.name}_sum`, labels: {}, sharedLabels: labels, value: sum },
      { metricName: `${this.#options.name}_count`, labels: {}, sharedLabels: labels, value: count },
    ];
  }
}

function labelsOf(names: readonly string[], values: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? ""]));
}
