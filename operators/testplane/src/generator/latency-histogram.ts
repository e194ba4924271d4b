import { deflateRawSync, inflateRawSync } from "node:zlib";
import { Float64Histogram } from "hdr-histogram-js";
import { isCount } from "./figure-bounds.ts";

/** Maximum latency that is recorded; longer ones count as this. */
const maxMicroseconds = 3_600_000_000;
/** Maximum size of the text of a histogram. */
const maxTextBytes = 1_048_576;

/** Latencies, exact to three digits. Histograms can be merged without loss. */
export class LatencyHistogram {
  readonly #histogram = new Float64Histogram(1, maxMicroseconds, 3);

  /** Number of latencies. */
  get count(): number {
    return this.#histogram.totalCount;
  }

  get minMs(): number {
    return this.count === 0 ? 0 : this.#histogram.getValueAtPercentile(0) / 1_000;
  }

  get meanMs(): number {
    return this.count === 0 ? 0 : this.#histogram.mean / 1_000;
  }

  record(ms: number, count = 1): void {
    this.#histogram.recordValueWithCount(Math.min(Math.max(Math.round(ms * 1_000), 1), maxMicroseconds), count);
  }

  /** The latency that this percentage of the requests does not exceed. 0 if the histogram is empty. */
  percentileMs(percentile: number): number {
    return this.count === 0 ? 0 : this.#histogram.getValueAtPercentile(percentile) / 1_000;
  }

  add(other: LatencyHistogram): void {
    this.#histogram.add(other.#histogram);
  }

  reset(): void {
    this.#histogram.reset();
  }

  /** The histogram as text: a compressed list of values and counts. */
  encode(): string {
    const entries: string[] = [];
    const iterator = this.#histogram.recordedValuesIterator;
    iterator.reset();
    let last = 0;
    while (iterator.hasNext()) {
      const { valueIteratedTo, countAddedInThisIterationStep } = iterator.next();
      entries.push(`${(valueIteratedTo - last).toString(36)}:${countAddedInThisIterationStep.toString(36)}`);
      last = valueIteratedTo;
    }
    return deflateRawSync(entries.join(",")).toString("base64");
  }

  /** Adds an encoded histogram. Returns false, and adds nothing, if the text is not valid. */
  addEncoded(encoded: string): boolean {
    const entries = decode(encoded);
    if (entries === undefined) return false;
    for (const [value, count] of entries) this.#histogram.recordValueWithCount(value, count);
    return true;
  }
}

function decode(encoded: string): readonly (readonly [value: number, count: number])[] | undefined {
  const text = inflated(encoded);
  if (text === undefined) return undefined;
  let [value, total] = [0, 0];
  const entries: (readonly [number, number])[] = [];
  for (const entry of text === "" ? [] : text.split(",")) {
    const [delta = Number.NaN, count = Number.NaN] = entry.split(":").map((part) => Number.parseInt(part, 36));
    value += delta;
    total += count;
    if (!(delta >= 0 && count > 0 && isCount(total) && value <= maxMicroseconds * 2)) return undefined;
    entries.push([Math.min(value, maxMicroseconds), count]);
  }
  return entries;
}

function inflated(encoded: string): string | undefined {
  try {
    return inflateRawSync(Buffer.from(encoded, "base64"), { maxOutputLength: maxTextBytes }).toString("latin1");
  } catch {
    return undefined;
  }
}
