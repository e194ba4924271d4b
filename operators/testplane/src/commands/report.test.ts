import fc from "fast-check";
import { expect, it } from "vitest";
import type { IntegrationTest, IntegrationTestSpec } from "../api/integration-test.ts";
import type { DeepReadonly } from "@keelson/api-machinery";
import { decideIntegrationTest } from "../controllers/integration/integration-test-decision.ts";
import { isFinished } from "../controllers/test-status.ts";
import { junitReport } from "./junit.ts";
import { reportTest } from "./report.ts";

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
  expect(report).toMatchObject({ verdict: "failed", rounds: { completed: 15, failed: 3, minSeconds: 0 } });
});

it("derives JUnit, JSON and the verdict from the same rounds, however many there are", () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }), fc.boolean(), (rounds, untilFailure) => {
      const object = finished(rounds, { count: rounds.length, untilFailure });
      const report = reportTest({ kind: "IntegrationTest", name: "t", object });
      const xml = junitReport([report]);
      const failures = attribute(xml, "failures") + attribute(xml, "errors");
      expect(failures).toBe(object.status?.failedRounds);
      expect(attribute(xml, "tests")).toBe(object.status?.completedRounds);
      expect(report.verdict === "passed").toBe(object.status?.phase === "Succeeded");
      expect(failures === 0).toBe(report.verdict === "passed");
    }),
  );
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
