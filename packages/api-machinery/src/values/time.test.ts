import { expect, test } from "vitest";
import { formatMicroTime, formatTime, parseTime } from "./time.ts";

test("formats times in whole seconds and in microseconds", () => {
  const timeMs = Date.UTC(2026, 0, 2, 3, 4, 5, 678) + 0.25;
  expect(formatTime(timeMs)).toBe("2026-01-02T03:04:05Z");
  expect(formatMicroTime(timeMs)).toBe("2026-01-02T03:04:05.678250Z");
  expect(formatTime(-1)).toBe("1969-12-31T23:59:59Z");
});

test("parses times with zones and fractions and rejects everything else", () => {
  expect(parseTime("2026-01-02T03:04:05Z")).toBe(Date.UTC(2026, 0, 2, 3, 4, 5));
  expect(parseTime("2026-01-02T03:04:05.678250+01:00")).toBe(Date.UTC(2026, 0, 2, 2, 4, 5, 678) + 0.25);
  expect(["yesterday", "2026-01-02", "2026-13-02T03:04:05Z", ""].map(parseTime)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test("rejects a time that is out of range", () => {
  expect(() => formatTime(Number.NaN)).toThrow("is not between the years 0 and 9999");
});
