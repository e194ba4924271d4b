import { expect, it } from "vitest";
import { describeTest } from "./describe-test.ts";

const now = Date.parse("2026-01-01T00:01:00Z");
const at = (seconds: number): string => new Date(now - 60_000 + seconds * 1_000).toISOString();

it("replaces control characters, which output of programs may have", () => {
  const status = { phase: "Failed", message: "exit code 1: \u001b[2J\u009b1A\u202egone\r\tend\nnext" };
  const object = { metadata: { name: "shop" }, spec: { steps: [] }, status } as never;
  const text = describeTest({ kind: "IntegrationTest", namespace: "default", name: "shop", object }, now);
  expect(text).toContain("exit code 1: \ufffd[2J\ufffd1A\ufffdgone\ufffd\tend\nnext");
});

it("describes a failed test with its steps, failed checks and rounds", () => {
  const round = { startedAt: at(0), finishedAt: at(2), stepCount: 2, succeededSteps: 1, durationSeconds: 2 };
  const status = {
    ...{ phase: "Failed", verdict: "Flaky", reason: "StepFailed", message: "1 of 2 rounds failed" },
    ...{ startTime: at(0), completionTime: at(5), currentRound: 2, completedRounds: 2, failedRounds: 1 },
    failureBundle: { configMap: "shop-failure", round: 2, collectedAt: at(4) },
    steps: [
      { name: "create", index: 0, state: "Succeeded", verdict: "Passed", startedAt: at(2), finishedAt: at(3) },
      {
        ...{
          name: "check",
          index: 1,
          state: "Failed",
          verdict: "Failed",
          attempt: 2,
          reason: "CheckFailed",
          message: "not red",
        },
        ...{ startedAt: at(3), finishedAt: at(5) },
        expectationResults: [
          { expect: "has a name", passed: true },
          { expect: "is red", passed: false, message: "does not match", diff: "-colour: red\n+colour: blue" },
          { expect: "count", passed: false, message: "is 2", expected: "3", actual: "2" },
        ],
      },
      { name: "remove", index: 2, phase: "Cleanup", state: "" },
    ],
    roundHistory: [
      { ...round, round: 1, outcome: "Succeeded", succeeded: true, verdict: "Passed" },
      { ...round, round: 2, outcome: "Failed", succeeded: false, verdict: "Failed", failedStep: "check", message: "not red" },
    ],
  };
  const object = { metadata: { name: "shop" }, spec: { steps: [] }, status } as never;
  expect(describeTest({ kind: "IntegrationTest", namespace: "default", name: "shop", object }, now)).toBe(`\
Name:       default/shop
Kind:       IntegrationTest
Phase:      Failed
Verdict:    flaky
Reason:     StepFailed
Message:    1 of 2 rounds failed
Time:       5.0 s
Bundle:     ConfigMap shop-failure

Steps of round 2:
  create  Passed  1.0 s
  check  Failed  2.0 s  attempt 2
    CheckFailed: not red
    is red: does not match
      -colour: red
      +colour: blue
    count: is 2
      expected: 3
      actual:   2
  Cleanup: remove  not started

Last rounds:
  1  Passed  2.0 s
  2  Failed  2.0 s  check: not red
`);
});

it("describes a load test with its criteria, and a running test with the time so far", () => {
  const status = {
    ...{ phase: "Running", startTime: at(50), healthCheckStatus: { checkCount: 4, passCount: 3 } },
    load: { source: "Keelson", state: "Partial", requests: 100, requestsPerSecond: 50, errorPercent: 1 },
  };
  const object = { metadata: { name: "load" }, spec: {}, status } as never;
  expect(describeTest({ kind: "LoadTest", namespace: "default", name: "load", object }, now)).toBe(`\
Name:       default/load
Kind:       LoadTest
Phase:      Running
Time:       10.0 s, still running
Checks:     3 of 4 held
Load:       100 requests, 50 per second, 1 % errors
`);
});
