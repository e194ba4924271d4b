import { describe, expect, it } from "vitest";
import { parseK6Summary } from "./k6-summary.ts";
import { mergeK6 } from "./merge-k6.ts";

/** What `handleSummary` gets. */
const summary = {
  root_group: { name: "", checks: [{ name: 'is "{200}"', passes: 1 }] },
  options: { summaryTrendStats: ["avg", "p(95)"] },
  state: { isStdOutTTY: false, testRunDurationMs: 10_004.5 },
  metrics: {
    http_reqs: { type: "counter", contains: "default", values: { count: 500, rate: 49.97 } },
    http_req_failed: { type: "rate", contains: "default", values: { rate: 0.02, passes: 10, fails: 490 } },
    http_req_duration: {
      type: "trend",
      contains: "time",
      values: { avg: 12.3456, min: 1, med: 10, max: 99.5, "p(90)": 20, "p(99.9)": 88 },
    },
    checks: { type: "rate", contains: "default", values: { rate: 0.9, passes: 450, fails: 50 } },
  },
};

/** What `--summary-export` writes. */
const exported = {
  root_group: { name: "" },
  metrics: {
    http_reqs: { count: 20, rate: 4 },
    http_req_failed: { passes: 5, fails: 15, thresholds: { "rate<0.1": true }, value: 0.25 },
    http_req_duration: { avg: 2, min: 1, med: 2, max: 3, "p(95)": 3 },
  },
};

describe("the summary of k6", () => {
  it("is found among other output, and its figures are read", () => {
    const output = `running {"metrics"}\n{ broken\n${JSON.stringify(summary, undefined, 2)}\n\nERRO[0010] thresholds crossed\n`;
    expect(parseK6Summary(output)).toEqual({
      source: "K6",
      state: "Complete",
      seconds: 10.005,
      requests: 500,
      failed: 10,
      errorPercent: 2,
      requestsPerSecond: 49.97,
      minMilliseconds: 1,
      meanMilliseconds: 12.346,
      percentiles: [
        { percentile: 50, milliseconds: 10 },
        { percentile: 90, milliseconds: 20 },
        { percentile: 99.9, milliseconds: 88 },
        { percentile: 100, milliseconds: 99.5 },
      ],
      checksPassed: 450,
      checksFailed: 50,
    });
  });

  it("is read in the older format too, and the last one counts", () => {
    const output = `${JSON.stringify(summary)}\n${JSON.stringify(exported)}`;
    expect(parseK6Summary(output)).toMatchObject({ requests: 20, failed: 5, errorPercent: 25, seconds: 5 });
  });

  it("has no figure for a metric that is missing or not valid, because 0 would look like a success", () => {
    const { http_req_failed: _, ...withoutFailures } = summary.metrics;
    const found = parseK6Summary(JSON.stringify({ ...summary, metrics: withoutFailures }));
    expect(found).toMatchObject({ requests: 500, requestsPerSecond: 49.97 });
    expect([found?.failed, found?.errorPercent]).toEqual([undefined, undefined]);
    const onlyChecks = parseK6Summary(JSON.stringify({ metrics: { checks: { passes: 3, fails: 0 } } }));
    expect(onlyChecks).toEqual({ source: "K6", state: "Complete", seconds: 0, checksPassed: 3, checksFailed: 0 });
    const forged =
      '{"metrics": {"http_reqs": {"count": 1e300, "rate": 1e999}, "http_req_duration": {"med": 1e999, "p(200)": 1}}}';
    expect(parseK6Summary(forged)).toEqual({ source: "K6", state: "Complete", seconds: 0 });
    if (found === undefined || onlyChecks === undefined) throw new Error("no summary");
    expect(mergeK6([found, found])).toMatchObject({ requests: 1_000 });
    expect(mergeK6([found, found])?.failed).toBeUndefined();
    expect(mergeK6([found, onlyChecks])?.requestsPerSecond).toBeUndefined();
  });

  it.each([
    "",
    "no summary",
    "{",
    '{"metrics": {}}',
    '{"metrics": 7}',
    '{"metrics": {"http_reqs": {"count": 1}}',
    "{\n".repeat(5_000),
    '{"metrics": {"__proto__": {"count": 3}}}',
  ])("is absent in %j", (output) => {
    expect(parseK6Summary(output)).toBeUndefined();
  });

  it("of several processes has sums, and no percentiles, because they cannot be merged", () => {
    const [one, two] = [summary, exported].map((each) => parseK6Summary(JSON.stringify(each)));
    if (one === undefined || two === undefined) throw new Error("no summary");
    const merged = mergeK6([one, two]);
    expect(merged).toMatchObject({ workers: 2, requests: 520, failed: 15, checksFailed: 50, requestsPerSecond: 53.97 });
    expect(merged?.percentiles).toBeUndefined();
    expect([mergeK6([]), mergeK6([one])]).toEqual([undefined, one]);
  });
});
