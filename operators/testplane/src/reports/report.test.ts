import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { IntegrationTest, IntegrationTestSpec } from "../api/integration-test.ts";
import type { DeepReadonly } from "@keelson/api-machinery";
import type { LoadResult } from "../api/load-result.ts";
import { decideIntegrationTest } from "../controllers/integration/integration-test-decision.ts";
import { isFinished } from "../controllers/test-status.ts";
import { htmlReport } from "./html.ts";
import { junitReport } from "./junit.ts";
import { markdownReport } from "./markdown.ts";
import { prometheusReport } from "./prometheus.ts";
import { reportTest, type TestReport } from "./report.ts";
import { jsonReport } from "./write-reports.ts";

/** Runs a test whose rounds have these results, without an API server. */
function finished(rounds: readonly boolean[], repeat: IntegrationTestSpec["repeat"] = { count: rounds.length }) {
  const spec: IntegrationTestSpec = {
    ...(repeat === undefined ? {} : { repeat }),
    steps: [
      {
        name: "look",
        timeoutSeconds: 5,
        resource: { selector: { apiVersion: "example.com/v1", kind: "Lamp", name: "desk" } },
        expectations: { allOf: [{ function: "FieldEquals", params: { path: "isLit", value: true } }] },
      },
    ],
  };
  let now = Date.UTC(2026, 0, 1);
  let status: DeepReadonly<NonNullable<IntegrationTest["status"]>> = {};
  for (let turn = 0; turn < 10 * rounds.length + 10 && !isFinished(status); turn++) {
    const isLit = rounds[(status.currentRound ?? 1) - 1] ?? false;
    const decision = decideIntegrationTest({
      ...{ spec, generation: 1, namespace: "default", program: { command: ["tool"] }, status, now },
      webhookState: () => undefined,
      observe: () => ({ kind: "known", objects: [{ isLit }], hasSeen: () => true }),
    });
    status = decision.status;
    now = Math.max(now, decision.wakeAtMs ?? now);
  }
  expect(isFinished(status)).toBe(true);
  return { apiVersion: "", kind: "", metadata: { name: "t" }, spec, status } as unknown as DeepReadonly<IntegrationTest>;
}

const attribute = (xml: string, name: string): number => Number(new RegExp(`<testsuites [^>]*${name}="(\\d+)"`).exec(xml)?.[1]);

it("reports early failed rounds that are no longer in the history", () => {
  const object = finished([false, false, false, ...Array.from({ length: 12 }, () => true)]);
  const report = reportTest({ kind: "IntegrationTest", name: "t", object });
  const xml = junitReport([report]);
  expect([attribute(xml, "tests"), attribute(xml, "failures")]).toEqual([15, 3]);
  expect(xml).toMatch(/name="round 1"[^]*FieldEquals: isLit is/);
  expect(report).toMatchObject({ verdict: "flaky", isSuccess: false, rounds: { completed: 15, failed: 3, minSeconds: 0 } });
});

const embedded = (html: string): unknown =>
  JSON.parse(/<script type="application\/json" id="report">(.*?)<\/script>/s.exec(html)?.[1] ?? "");

it("derives kubectl's columns, JUnit, JSON, HTML and Markdown from the same rounds, however many there are", () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }),
      fc.boolean(),
      fc.constantFrom("Fail", "Quarantine"),
      (rounds, untilFailure, flakyPolicy) => {
        const object = finished(rounds, { count: rounds.length, untilFailure, flakyPolicy });
        const { phase, verdict, failedRounds = 0, completedRounds = 0, conditions, roundVerdicts } = object.status ?? {};
        const report = reportTest({ kind: "IntegrationTest", name: "t", object });
        const xml = junitReport([report]);
        const failures = attribute(xml, "failures") + attribute(xml, "errors");
        const isFlaky = failedRounds > 0 && failedRounds < completedRounds;
        const isSuccess = failedRounds === 0 || (isFlaky && flakyPolicy === "Quarantine");
        expect([verdict, phase]).toEqual([
          isFlaky ? "Flaky" : failedRounds > 0 ? "Timeout" : "Passed",
          isSuccess ? "Succeeded" : "Failed",
        ]);
        expect(roundVerdicts).toEqual({
          ...(completedRounds > failedRounds ? { passed: completedRounds - failedRounds } : {}),
          ...(failedRounds > 0 ? { timeout: failedRounds } : {}),
        });
        for (const type of ["Complete", "Failed"]) {
          expect(conditions?.find((each) => each.type === type)?.status === "True").toBe(isSuccess === (type === "Complete"));
        }
        expect(failures).toBe(isSuccess ? 0 : failedRounds);
        expect(attribute(xml, "tests")).toBe(completedRounds);
        expect([report.verdict, report.isSuccess]).toEqual([verdict?.toLowerCase(), isSuccess]);
        expect(embedded(htmlReport([report]))).toEqual(JSON.parse(jsonReport([report])));
        expect(markdownReport([report])).toContain(`## ${isSuccess ? 1 : 0} of 1 tests succeeded`);
        expect(markdownReport([report])).toContain(`| t | ${report.verdict}`);
      },
    ),
  );
});

it("escapes texts of tests in HTML and Markdown", () => {
  const evil = "</script><img src=x onerror=alert(1)> | `a` \n# b\u0000\u001b[31m";
  const report: TestReport = {
    kind: "IntegrationTest",
    name: evil,
    verdict: "failed",
    isSuccess: false,
    reason: "",
    message: evil,
    seconds: 1,
    cases: [{ name: evil, seconds: 1, outcome: "failed", message: evil, details: `- ${evil}\n+ ${evil}` }],
  };
  const html = htmlReport([report]);
  expect(html).not.toContain("<img");
  expect(html.match(/<\/script>/g)).toHaveLength(1);
  expect(embedded(html)).toEqual({ tests: [report] });
  expect(markdownReport([report])).toMatch(/^\| \\<\/script\\>.* \\\|/m);
  expect(html + markdownReport([report])).not.toMatch(/[^\P{Cc}\n]/u);
});

it("keeps the status of 10,000 rounds below 128 KiB, however they ended", { timeout: 60_000 }, () => {
  const object = finished(Array.from({ length: 10_000 }, (_, index) => index % 4 > 1));
  expect(object.status).toMatchObject({ completedRounds: 10_000, verdict: "Flaky" });
  expect(JSON.stringify(object.status).length).toBeLessThan(131_072);
});

it("never reports a failed or unfinished test without a failure or an error", () => {
  const statuses = [
    undefined,
    { phase: "Running" },
    { phase: "Failed", reason: "Timeout", completionTime: "2026-01-01T00:00:00Z" },
    { phase: "Failed", reason: "InvalidConfig", completionTime: "2026-01-01T00:00:00Z" },
    { phase: "Aborted", completionTime: "2026-01-01T00:00:00Z", steps: [{ name: "a", index: 0, state: "Succeeded" }] },
    {
      phase: "Failed",
      completionTime: "2026-01-01T00:00:00Z",
      roundHistory: [1, 2].map((round) => ({ round, outcome: "Succeeded" })),
    },
  ];
  for (const kind of ["IntegrationTest", "LoadTest"] as const) {
    for (const status of statuses) {
      const object = { spec: {}, ...(status === undefined ? {} : { status }) } as never;
      const report = reportTest({ kind, name: "t", object });
      expect(report.verdict).not.toBe("passed");
      const xml = junitReport([report]);
      expect(attribute(xml, "failures") + attribute(xml, "errors"), JSON.stringify(status)).toBeGreaterThan(0);
    }
  }
});

describe("the report of a LoadTest", () => {
  const load: LoadResult = {
    ...{ source: "Generator", state: "Complete", workers: 2, seconds: 2, requests: 300, failed: 3, notSent: 0 },
    ...{ errorPercent: 1, requestsPerSecond: 150, minMilliseconds: 1, meanMilliseconds: 2, maxPauseMilliseconds: 4 },
    percentiles: [
      { percentile: 50, milliseconds: 2 },
      { percentile: 99, milliseconds: 12 },
    ],
    statusCodes: { 200: 297, 500: 2 },
    errors: { "</script><b>": 1 },
    timeline: [
      { second: 0, seconds: 1, requests: 100, failed: 0, p99Milliseconds: 3 },
      { second: 1, seconds: 1, requests: 200, failed: 3, p99Milliseconds: 12 },
    ],
  };
  const report = reportTest({
    kind: "LoadTest",
    name: "t",
    object: {
      metadata: { name: "t" },
      status: {
        ...{ phase: "Failed", verdict: "Failed", reason: "CriteriaNotMet", message: "too slow", load },
        completionTime: "2026-01-01T00:00:00Z",
        criteria: [
          { name: "maxErrorPercent", expected: "at most 1 %", actual: "1 %", state: "Met" },
          { name: "latency p99", expected: "at most 5 ms", actual: "12 ms", state: "NotMet" },
          { name: "latency p99.9", expected: "at most 9 ms", state: "Unknown" },
        ],
      },
    } as never,
  });

  it("has a case per criterion and the measured load in every format", () => {
    expect(report.cases).toMatchObject([
      { name: "load", outcome: "failed" },
      { name: "maxErrorPercent at most 1 %", outcome: "passed" },
      { name: "latency p99 at most 5 ms", outcome: "failed", message: "latency p99 is 12 ms, must be at most 5 ms" },
      { name: "latency p99.9 at most 9 ms", outcome: "error", message: "latency p99.9 is unknown, must be at most 9 ms" },
    ]);
    expect(report.load).toEqual(load);
    expect(markdownReport([report])).toContain("latency p99 is 12 ms, must be at most 5 ms");
  });

  it("has metrics for Prometheus", () => {
    const text = prometheusReport([{ ...report, namespace: "team-a", name: 'a"b\\c\nd' }]);
    const labels = 'kind="LoadTest",namespace="team-a",name="a\\"b\\\\c\\nd"';
    // The identity of a series does not depend on its value.
    expect(text).toContain(`testplane_test_success{${labels}} 0\n`);
    expect(text).toContain(`testplane_test_info{${labels},verdict="failed"} 1\n`);
    expect(text).toContain(`testplane_load_requests{${labels}} 300\n`);
    expect(text).toContain(`testplane_load_latency_seconds{${labels},quantile="0.99"} 0.012\n`);
    for (const line of text.trimEnd().split("\n")) expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+\{.+\} [\d.e-]+)$/);
    expect(prometheusReport([])).toBe("\n");
  });

  it("plots the load in HTML, with texts escaped, and without times for criteria", () => {
    const html = htmlReport([report]);
    expect(html).toContain('at most 1 %</td><td><span class="badge passed">passed</span></td><td></td><td></td></tr>');
    expect(embedded(html)).toEqual({ tests: [JSON.parse(JSON.stringify(report))] });
    expect(html).toContain("300 in 2 s (150/s)");
    expect(html).toContain("200: 297, 500: 2");
    expect(html).toContain("<title>p99: 12 ms</title>");
    expect(html).toContain("second 1: 200 requests in 1 s, 3 failed, p99 12 ms");
    expect(html.match(/<\/script>/g)).toHaveLength(1);
    expect(html).not.toMatch(/NaN|Infinity|undefined/);
  });
});
