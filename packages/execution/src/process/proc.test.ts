import { expect, test } from "vitest";
import { parseStat, ProcessList, type ProcessStat } from "./proc.ts";

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

test("lists processes once for callers that come while a listing runs", async () => {
  const finish: ((found: readonly ProcessStat[]) => void)[] = [];
  const processes = new ProcessList(() => new Promise((resolve) => finish.push(resolve)));
  const first = processes.list();
  await expect.poll(() => finish.length).toBe(1);
  const later = [processes.list(), processes.list()];
  finish[0]?.([]);
  expect(await first).toEqual([]);
  await expect.poll(() => finish.length).toBe(2);
  const stat = parseStat("42 (a) S 1 40 41 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 987654 1000 3 0");
  finish[1]?.(stat === undefined ? [] : [stat]);
  expect(await Promise.all(later)).toEqual([[stat], [stat]]);
  expect(finish).toHaveLength(2);
});

test("lists processes again after a listing that failed", async () => {
  let listings = 0;
  const processes = new ProcessList(async () => {
    if (++listings === 1) throw new TypeError("too many open files");
    return [];
  });
  await expect(processes.list()).rejects.toThrow("too many open files");
  expect(await processes.list()).toEqual([]);
});
