import fc from "fast-check";
import { expect, test } from "vitest";
import { formatDuration, isDuration, parseDuration } from "./duration.ts";

test.each<[string, number]>([
  ["0", 0],
  ["30s", 30_000],
  ["1m30s", 90_000],
  ["1.5h", 5_400_000],
  ["-2h45m", -9_900_000],
  ["+1ms", 1],
  [".5s", 500],
  ["1us", 0.001],
  ["1µs", 0.001],
  ["0.1s0.2s", 300],
])("the duration %s is %d ms", (text, durationMs) => {
  expect(parseDuration(text)).toBe(durationMs);
});

test.each(["", "30", "s", "1 s", "1d", "1h-2m", "ten", "1e3s", "9999999999h"])(
  "rejects the duration %j and names it",
  (text) => {
    expect(isDuration(text)).toBe(false);
    expect(() => parseDuration(text)).toThrow(`invalid duration ${JSON.stringify(text)}`);
  },
);

test.each<[number, string]>([
  [0, "0s"],
  [90_000, "1m30s"],
  [3_600_000, "1h0m0s"],
  [-1_500, "-1.5s"],
  [250, "250ms"],
  [0.5, "500µs"],
  [1.25, "1.25ms"],
  [0.000_001, "1ns"],
])("%d ms is written %s", (durationMs, text) => {
  expect(formatDuration(durationMs)).toBe(text);
});

test("parses what it formats", () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e12, max: 1e12 }), (durationMs) => {
      expect(parseDuration(formatDuration(durationMs))).toBe(durationMs);
    }),
  );
});

test("rejects a duration that exceeds Go's range", () => {
  expect(() => formatDuration(Number.NaN)).toThrow(RangeError);
  expect(() => formatDuration(1e300)).toThrow("out of range");
});
