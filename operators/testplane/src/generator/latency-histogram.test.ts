import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LatencyHistogram } from "./latency-histogram.ts";

const histogramOf = (values: readonly number[]): LatencyHistogram => {
  const histogram = new LatencyHistogram();
  for (const value of values) histogram.record(value);
  return histogram;
};
const latencies = fc.array(fc.double({ min: 0, max: 20_000, noNaN: true }), { minLength: 1, maxLength: 200 });
const percentiles = [0, 50, 90, 99, 99.9, 100];

describe("a histogram of latencies", () => {
  it("merges the text of others without loss", () => {
    fc.assert(
      fc.property(latencies, latencies, (a, b) => {
        const whole = histogramOf([...a, ...b]);
        const merged = new LatencyHistogram();
        for (const part of [a, b]) expect(merged.addEncoded(histogramOf(part).encode())).toBe(true);
        expect(merged.count).toBe(a.length + b.length);
        expect(percentiles.map((p) => merged.percentileMs(p))).toEqual(percentiles.map((p) => whole.percentileMs(p)));
      }),
      { numRuns: 30 },
    );
  });

  it("has percentiles that are exact to a thousandth", () => {
    fc.assert(
      fc.property(latencies, fc.constantFrom(50, 90, 99, 100), (values, percentile) => {
        const sorted = values.toSorted((a, b) => a - b);
        const exact = sorted[Math.ceil((percentile / 100) * sorted.length) - 1] ?? 0;
        expect(Math.abs(histogramOf(values).percentileMs(percentile) - exact)).toBeLessThanOrEqual(0.002 + exact / 1_000);
      }),
      { numRuns: 100 },
    );
  });

  it("counts latencies beyond an hour as an hour, and is 0 without any", () => {
    expect(histogramOf([9e9]).percentileMs(50) / 3_600_000).toBeCloseTo(1, 2);
    const empty = new LatencyHistogram();
    expect([empty.minMs, empty.meanMs, empty.percentileMs(99)]).toEqual([0, 0, 0]);
    expect(new LatencyHistogram().addEncoded(empty.encode())).toBe(true);
  });

  const forged = ["1:zzzzzzzzzzzz", "1:9zzzzzzzzz,1:9zzzzzzzzz", "1:-1", "-1:1"].map((text) =>
    deflateRawSync(text).toString("base64"),
  );
  it.each(["x", "!!", Buffer.from("1:1").toString("base64"), ...forged])("rejects the invalid text %j", (text) => {
    const histogram = new LatencyHistogram();
    expect(histogram.addEncoded(text)).toBe(false);
    expect(histogram.count).toBe(0);
  });
});
