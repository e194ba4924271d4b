import type { DeepReadonly } from "@keelson/api-machinery";
import { expect, it } from "vitest";
import type { IntegrationTest } from "../api/integration-test.ts";
import { progressLines } from "./progress.ts";

const round = (number: number) => ({
  ...{ round: number, outcome: "Failed", succeeded: false, durationSeconds: 0, stepCount: 1, succeededSteps: 0 },
  ...{ startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:00Z", failedStep: "read", message: "Forbidden" },
});
const failed = { name: "read", index: 0, state: "Failed", reason: "Forbidden", message: "no" };
const test = (status: object) =>
  ({
    kind: "IntegrationTest",
    metadata: { name: "t" },
    spec: { steps: [{ name: "read" }] },
    status,
  }) as unknown as DeepReadonly<IntegrationTest>;

it("prints the steps of a round before it ends, even if one event has both", () => {
  const status = { phase: "Running", currentRound: 1, steps: [failed], roundHistory: [round(1)] };
  expect(progressLines(undefined, test(status))).toEqual([
    "  read: FAILED: Forbidden: no",
    "round 1: Failed in 0.0 s: read: Forbidden",
  ]);
});

it("prints the end of an earlier round before the steps of the current one", () => {
  const before = { phase: "Running", currentRound: 1, steps: [failed] };
  const after = { ...before, currentRound: 2, steps: [{ ...failed, message: "again" }], roundHistory: [round(1)] };
  expect(progressLines(test(before), test(after))).toEqual([
    "round 1: Failed in 0.0 s: read: Forbidden",
    "  read: FAILED: Forbidden: again",
  ]);
});
