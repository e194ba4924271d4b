import fc from "fast-check";
import { expect, it } from "vitest";
import type { IntegrationTest, IntegrationTestSpec } from "../api/integration-test.ts";
import type { DeepReadonly } from "@keelson/api-machinery";
import { decideIntegrationTest } from "../controllers/integration/integration-test-decision.ts";
import { isFinished } from "../controllers/test-status.ts";
import { htmlReport } from "./html.ts";
import { junitReport } from "./junit.ts";
import { markdownReport } from "./markdown.ts";
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
      ...{ spec, generation: 1, namespace: "default", status, now },
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
  const evil = "</script><img src=x onerror=alert(1)> | `a` \n# b";
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
