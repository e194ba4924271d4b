/** A histogram in the text format of Prometheus, by label text. */
export class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  /** `counts` are those of each bucket alone. */
  readonly #series = new Map<string, { readonly counts: number[]; sum: number; count: number }>();

  /** `bounds` are the upper bounds of the buckets. */
  constructor(name: string, help: string, bounds: readonly number[]) {
    this.#name = name;
    this.#help = help;
    this.#bounds = bounds;
  }

  observe(labels: string, value: number): void {
    const key = seriesKey(this.#series, labels);
    let series = this.#series.get(key);
    if (series === undefined) this.#series.set(key, (series = { counts: this.#bounds.map(() => 0), sum: 0, count: 0 }));
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket >= 0) series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.sum += value;
    series.count++;
  }

  *lines(): Generator<string> {
    yield* head(this.#name, "histogram", this.#help);
    for (const [labels, { counts, sum, count }] of this.#series) {
      let cumulative = 0;
      for (const [index, bound] of this.#bounds.entries()) {
        cumulative += counts[index] ?? 0;
        yield `${this.#name}_bucket{${labels},le="${bound}"} ${cumulative}`;
      }
      yield `${this.#name}_bucket{${labels},le="+Inf"} ${count}`;
      yield `${this.#name}_sum{${labels}} ${sum}`;
      yield `${this.#name}_count{${labels}} ${count}`;
    }
  }
}

/** A counter in the text format of Prometheus, by label text. */
export class Counter {
  readonly #name: string;
  readonly #help: string;
  readonly #series = new Map<string, number>();

  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  increment(labels: string): void {
    const key = seriesKey(this.#series, labels);
    this.#series.set(key, (this.#series.get(key) ?? 0) + 1);
  }

  *lines(): Generator<string> {
    yield* head(this.#name, "counter", this.#help);
    for (const [labels, count] of this.#series) yield `${this.#name}{${labels}} ${count}`;
  }
}

/** Maximum number of time series per metric; further ones are counted together. */
const maxSeries = 2_000;

function seriesKey(series: ReadonlyMap<string, unknown>, labels: string): string {
  return series.has(labels) || series.size < maxSeries ? labels : 'verb="OTHER"';
}

/** The help and type lines of a metric. */
export function* head(name: string, type: string, help: string): Generator<string> {
  yield `# HELP ${name} ${help}`;
  yield `# TYPE ${name} ${type}`;
}

/** Escapes the value of a label. */
export function escapeLabel(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
