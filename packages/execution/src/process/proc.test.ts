import { expect, test } from "vitest";
import { parseStat } from "./proc.ts";

test("parses the start time after a name with spaces and parentheses", () => {
  const line = "42 (a) b (c) S 1 40 41 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 987654 1000 3 0";
  expect(parseStat(line)).toEqual({
    pid: 42,
    state: "S",
    parent: 1,
    group: 40,
    session: 41,
    cpuTicks: 12,
    startTime: 987654,
    residentBytes: 3 * 4096,
  });
  expect(parseStat("")).toBeUndefined();
});
