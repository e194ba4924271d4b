import { expect, it } from "vitest";
import { type GeneratorReport, lastReport } from "../generator/generator-report.ts";
import { LoadRecorder } from "../generator/load-recorder.ts";
import { mergeReports } from "./merge-reports.ts";

/** A report of a worker with these latencies, one every 100 ms. */
function reportOf(latencies: readonly number[], kind: GeneratorReport["keelsonLoad"] = "result"): GeneratorReport {
  const recorder = new LoadRecorder();
  for (const [index, latency] of latencies.entries()) {
    recorder.record(index * 100, latency, { status: latency > 50 ? 500 : 200, bytes: 1, isExpected: latency <= 50 });
  }
  return recorder.report(kind, latencies.length * 100, { isComplete: kind === "result", maxPauseMs: latencies.length });
}

const fast = Array.from({ length: 30 }, (_, index) => index + 1);
const slow = Array.from({ length: 10 }, (_, index) => index * 10 + 10);

it("merges the figures of workers: sums, exact percentiles and a timeline", () => {
  const merged = mergeReports([reportOf(fast), reportOf(slow)], { workers: 2, percentiles: [33] });
  expect(merged).toMatchObject({
    ...{ source: "Generator", state: "Complete", workers: 2, seconds: 3, requests: 40, failed: 5, errorPercent: 12.5 },
    ...{ statusCodes: { 200: 35, 500: 5 }, bytesReceived: 40, maxPauseMilliseconds: 30 },
  });
  const at = (percentile: number) => merged?.percentiles?.find((each) => each.percentile === percentile)?.milliseconds;
  const sorted = [...fast, ...slow].toSorted((a, b) => a - b);
  for (const percentile of [33, 50, 90, 99, 100]) {
    const exact = sorted[Math.ceil((percentile / 100) * sorted.length) - 1] ?? 0;
    expect(Math.abs((at(percentile) ?? 0) - exact)).toBeLessThanOrEqual(exact / 1_000 + 0.001);
  }
  expect(merged?.timeline?.map(({ requests }) => requests)).toEqual([20, 10, 10]);
});

it("is Partial without the result of a worker, with an incomplete one, or with an unreadable histogram", () => {
  expect(mergeReports([reportOf(fast)], { workers: 2 })?.state).toBe("Partial");
  expect(mergeReports([{ ...reportOf(fast), isComplete: false }], { workers: 1 })?.state).toBe("Partial");
  const broken = mergeReports([{ ...reportOf(fast), histogram: "?" }], { workers: 1 });
  expect([broken?.state, broken?.meanMilliseconds]).toEqual(["Partial", undefined]);
  expect(mergeReports([], { workers: 1 })).toBeUndefined();
});

it("shows the highest percentiles of running workers", () => {
  const running = mergeReports([reportOf(fast, "progress"), reportOf(slow, "progress")], { workers: 2 });
  expect(running).toMatchObject({ state: "Running", requests: 40 });
  expect(running?.percentiles?.at(-1)).toMatchObject({ percentile: 99, milliseconds: expect.closeTo(100, 0) as unknown });
});

it("reads the last report of an output, and rejects texts that only look like one", () => {
  const [first, last] = [reportOf(fast, "progress"), reportOf(slow)];
  const output = `starting\n${JSON.stringify(first)}\n${JSON.stringify(last)}\nbye\n`;
  expect(lastReport(output)).toEqual(last);
  const forged = [
    '{"keelsonLoad"',
    '{"keelsonLoad":"result"}',
    JSON.stringify({ ...last, requests: -1 }),
    JSON.stringify({ ...last, requests: "9" }),
    JSON.stringify({ ...last, requests: 1.5 }),
    JSON.stringify({ ...last, failed: 2 ** 60 }),
    JSON.stringify({ ...last, errors: { a: 0.5 } }),
    JSON.stringify({ ...last, errors: { ["a".repeat(100)]: 1 } }),
    JSON.stringify({ ...last, seconds: 1e300 }),
    JSON.stringify({ ...last, timeline: [{ second: 0, seconds: 1, requests: 0.1, failed: 0, p99Ms: 1 }] }),
    JSON.stringify({ ...last, timeline: [{}] }),
    JSON.stringify({ ...last, statusCodes: { a: Number.NaN } }),
  ];
  for (const line of forged) expect(lastReport(line)).toBeUndefined();
});

it("has only finite figures, however short the load", () => {
  expect(mergeReports([{ ...reportOf(fast), seconds: 1e-300 }], { workers: 1 })?.requestsPerSecond).toBe(0);
});
