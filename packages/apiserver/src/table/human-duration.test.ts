import { describe, expect, it } from "vitest";
import { age, humanDuration } from "./human-duration.ts";

describe("humanDuration", () => {
  const second = 1000;
  const hour = 3_600_000;
  const day = 24 * hour;
  it.each([
    [-5 * second, "<invalid>"],
    [-1 * second, "0s"],
    [0, "0s"],
    [119 * second, "119s"],
    [120 * second, "2m"],
    [185 * second, "3m5s"],
    [600 * second, "10m"],
    [179 * 60 * second, "179m"],
    [3 * hour, "3h"],
    [4 * hour + 7 * 60 * second, "4h7m"],
    [8 * hour, "8h"],
    [47 * hour, "47h"],
    [48 * hour, "2d"],
    [2 * day + 5 * hour, "2d5h"],
    [8 * day, "8d"],
    [729 * day, "729d"],
    [3 * 365 * day + 40 * day, "3y40d"],
    [9 * 365 * day + 40 * day, "9y"],
  ])("writes %i ms as %s", (durationMs, text) => {
    expect(humanDuration(durationMs)).toBe(text);
  });
});

describe("age", () => {
  it("tells a missing time from a wrong one", () => {
    expect(age(undefined, 0)).toBe("<unknown>");
    expect(age("yesterday", 0)).toBe("<invalid>");
    expect(age("2020-01-01T00:00:00Z", Date.parse("2020-01-01T00:00:42Z"))).toBe("42s");
  });
});
