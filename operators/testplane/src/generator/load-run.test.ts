import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { describe, expect, it } from "vitest";
import type { GeneratorReport } from "./generator-report.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import { durationOf, type LoadPlan } from "./load-plan.ts";
import type { Outcome, Requester } from "./requester.ts";
import { runGenerator } from "./run-generator.ts";

const base: LoadPlan = {
  model: "open",
  stages: [{ durationMs: 10_000, from: 100, to: 100 }],
  request: { url: "http://x/", method: "GET", headers: {}, protocol: "HTTP/1.1", insecureSkipTlsVerify: false },
  ...{ maxConnections: 10, timeoutMs: 5_000, thinkTimeMs: 0, worker: 0, workers: 1 },
};
const ok: Outcome = { status: 200, bytes: 3, isExpected: true };

/** A target on the virtual clock that responds after `delayMs(time, n)`; undefined: never. */
function target(clock: VirtualClock, capacity: number, delayMs: (now: number, n: number) => number | undefined, outcome = ok) {
  let [requests, current, highest] = [0, 0, 0];
  const times: number[] = [];
  const requester: Requester = {
    capacity,
    send: (onEnd) => {
      times.push(clock.monotonic());
      const delay = delayMs(clock.monotonic(), requests++);
      highest = Math.max(highest, ++current);
      let isOpen = true;
      const leave = (): void => {
        if (isOpen) current--;
        isOpen = false;
      };
      const timer = delay === undefined ? undefined : clock.setTimer(delay, () => (leave(), onEnd(outcome)));
      return { abort: () => (leave(), timer?.cancel()) };
    },
    close: () => Promise.resolve(),
  };
  return { requester, times, requests: () => requests, highest: () => highest };
}

interface Run {
  readonly report: GeneratorReport;
  /** When the requests were sent, in milliseconds since the start. */
  readonly times: readonly number[];
  readonly requests: number;
  readonly highest: number;
  readonly pendingTimers: number;
  readonly lines: readonly string[];
}

/** Runs a plan against a target to its end. */
async function run(
  plan: Partial<LoadPlan>,
  delayMs: (now: number, n: number) => number | undefined,
  outcome = ok,
): Promise<Run> {
  const clock = createVirtualClock();
  const start = clock.monotonic();
  const whole = { ...base, ...plan };
  const server = target(clock, whole.maxConnections, delayMs, outcome);
  const lines: string[] = [];
  const ended = runGenerator({
    ...{ plan: whole, requester: server.requester, clock, signal: new AbortController().signal },
    maxPauseMs: () => 0,
    print: (line) => Promise.resolve(void lines.push(line)),
  });
  await clock.advance(durationOf(whole) + 50_000);
  const report = await ended;
  const times = server.times.map((time) => time - start);
  return { report, times, requests: server.requests(), highest: server.highest(), pendingTimers: clock.pendingTimers, lines };
}

const percentileOf = ({ histogram }: GeneratorReport, percentile: number): number => {
  const latencies = new LatencyHistogram();
  expect(latencies.addEncoded(histogram)).toBe(true);
  return latencies.percentileMs(percentile);
};

describe("an open model", () => {
  it("sends exactly the requests of its schedule, and leaves no timer behind", async () => {
    const { report, requests, pendingTimers, lines } = await run({}, () => 20);
    expect(report).toMatchObject({
      ...{ keelsonLoad: "result", isComplete: true, requests: 1_000, failed: 0, notSent: 0 },
      ...{ statusCodes: { 200: 1_000 }, bytesReceived: 3_000, seconds: 10.01 },
    });
    expect([requests, pendingTimers]).toEqual([1_000, 0]);
    expect(report.timeline.map((point) => point.requests)).toEqual([98, ...Array.from({ length: 9 }, () => 100), 2]);
    expect(lines.filter((line) => line.includes('"progress"')).length).toBe(10);
  });

  it("counts latency from when a request was due: a target that stalls for 2 s is not hidden", async () => {
    // Requests 400 to 600 are due while the target stalls. They wait for one of 10 connections.
    const { report, requests, highest } = await run({}, (now) => (now >= 4_000 && now < 6_000 ? 6_000 - now : 5));
    expect([report.requests, requests, highest, report.notSent]).toEqual([1_000, 1_000, 10, 0]);
    // 200 of 1,000 waited up to 2 s, evenly: the 90th percentile is about 1 s.
    expect(percentileOf(report, 90)).toBeGreaterThan(900);
    expect(percentileOf(report, 90)).toBeLessThan(1_300);
    expect(percentileOf(report, 100)).toBeGreaterThan(1_990);
  });

  it("counts what a slow target never took as not sent, with the delay as the least latency", async () => {
    // 10 connections with 1 s each serve 10/s of 100/s, for 10 s and a timeout of 5 s.
    const { report, requests } = await run({}, () => 1_000);
    expect(requests).toBe(report.requests);
    expect(report.requests + report.notSent).toBe(1_000);
    expect(report.requests).toBeGreaterThanOrEqual(140);
    expect(report.requests).toBeLessThanOrEqual(160);
    expect(percentileOf(report, 50)).toBeGreaterThan(5_000);
  });

  it("gives up requests after their timeout and frees their connections", async () => {
    const plan = { stages: [{ durationMs: 2_000, from: 5, to: 5 }], timeoutMs: 1_000 };
    const { report, highest } = await run(plan, () => undefined);
    expect(report).toMatchObject({ requests: 10, failed: 10, errors: { Timeout: 10 }, isComplete: true });
    expect(highest).toBeLessThanOrEqual(6);
    expect(percentileOf(report, 50)).toBeCloseTo(1_000, -1);
  });

  it("is shared by workers without a gap or an overlap", async () => {
    const stages = [{ durationMs: 3_000, from: 0, to: 99 }];
    const parts = await Promise.all([0, 1, 2].map((worker) => run({ stages, worker, workers: 3 }, () => 1)));
    const whole = await run({ stages }, () => 1);
    expect(whole.times.length).toBeGreaterThan(100);
    expect(parts.flatMap(({ times }) => times).toSorted((a, b) => a - b)).toEqual(whole.times);
  });

  it("lasts as long as its stages even if the last requests come early", async () => {
    const { report } = await run({ stages: [{ durationMs: 1_000, from: 1, to: 1 }] }, () => 1);
    expect(report).toMatchObject({ requests: 1, seconds: 1, isComplete: true });
  });

  it("survives a requester that throws", async () => {
    const clock = createVirtualClock();
    const requester: Requester = {
      capacity: 1,
      send: () => {
        throw Object.assign(new Error("closed"), { code: "ERR_CLOSED" });
      },
      close: () => Promise.resolve(),
    };
    const plan = { ...base, stages: [{ durationMs: 1_000, from: 10, to: 10 }] };
    const { signal } = new AbortController();
    const ended = runGenerator({ plan, requester, clock, signal, maxPauseMs: () => 0, print: () => Promise.resolve() });
    await clock.advance(20_000);
    expect(await ended).toMatchObject({ requests: 10, failed: 10, errors: { ERR_CLOSED: 10 } });
  });
});

describe("a closed model", () => {
  const users = (count: number): Partial<LoadPlan> => ({
    model: "closed",
    stages: [{ durationMs: 10_000, from: count, to: count }],
    maxConnections: count,
  });

  it("has as many requests under way as users, each after the response and a pause", async () => {
    const { report, requests, highest, pendingTimers } = await run({ ...users(5), thinkTimeMs: 150 }, () => 100);
    // 10 s in cycles of 250 ms.
    expect([report.requests, requests, highest, pendingTimers]).toEqual([200, 200, 5, 0]);
    expect(report).toMatchObject({ failed: 0, isComplete: true });
  });

  it("follows the stages up and down", async () => {
    const stages = [
      { durationMs: 5_000, from: 0, to: 10 },
      { durationMs: 5_000, from: 10, to: 0 },
    ];
    const { report, highest } = await run({ ...users(10), stages }, () => 100);
    expect(highest).toBeGreaterThanOrEqual(9);
    // On average five users, ten requests a second each.
    expect(report.requests).toBeGreaterThan(400);
    expect(report.requests).toBeLessThan(600);
    expect(report.isComplete).toBe(true);
  });

  it("does not hammer a target that cannot be reached", async () => {
    const refused: Outcome = { error: "ECONNREFUSED", bytes: 0, isExpected: false };
    const { report } = await run(users(1), () => 0, refused);
    expect(report.requests).toBeLessThanOrEqual(101);
    expect(report.errors).toEqual({ ECONNREFUSED: report.requests });
  });

  it("has all users at the same time although they share fewer connections", async () => {
    const { report, highest, pendingTimers } = await run({ ...users(50), maxConnections: 5 }, () => 1_000);
    expect([highest, report.requests, pendingTimers]).toEqual([50, 500, 0]);
  });

  it("ends with the last response, although users would pause after it", async () => {
    const { report } = await run({ ...users(3), thinkTimeMs: 30_000, timeoutMs: 20_000 }, () => 11_000);
    expect(report).toMatchObject({ requests: 3, seconds: 11, isComplete: true });
  });

  it("ends with its stages although users pause for longer", async () => {
    const { report, pendingTimers } = await run({ ...users(3), thinkTimeMs: 3_600_000 }, () => 1);
    expect([report.requests, report.isComplete, pendingTimers]).toEqual([3, true, 0]);
  });
});

it.each(["open", "closed"] as const)("stops a load with the %s model when its signal aborts, and says so", async (model) => {
  const clock = createVirtualClock();
  const server = target(clock, 10, () => 1_000);
  const stop = new AbortController();
  const ended = runGenerator({
    plan: { ...base, model, stages: [{ durationMs: 60_000, from: 5, to: 5 }] },
    ...{ requester: server.requester, clock, signal: stop.signal, maxPauseMs: () => 0, print: () => Promise.resolve() },
  });
  await clock.advance(3_500);
  stop.abort();
  const report = await ended;
  expect(report.isComplete).toBe(false);
  expect(report.requests).toBe(server.requests());
  expect(clock.pendingTimers).toBe(0);
});

it("keeps its size whatever the number of requests and the duration", async () => {
  const { report } = await run({ stages: [{ durationMs: 600_000, from: 40, to: 40 }] }, (_, n) => (n * 7) % 20);
  expect(report.requests).toBe(24_000);
  // Twice 120 points of 1 s were merged, and then 120 points of 4 s.
  expect(report.timeline.length).toBeLessThan(120);
  expect(report.timeline.reduce((sum, { requests }) => sum + requests, 0)).toBe(24_000);
  expect(report.timeline[0]?.seconds).toBe(8);
  expect(JSON.stringify(report).length).toBeLessThan(20_000);
});
