import { expect, test } from "vitest";
import { afterMeasurement, type MeasurementHistory, type MeasurementOutcome, unmeasured } from "./measurement-history.ts";

const at = { now: 1_000_000, intervalMs: 10_000 };

function after(...outcomes: readonly MeasurementOutcome[]): MeasurementHistory {
  return outcomes.reduce((history, outcome) => afterMeasurement(history, outcome, at), unmeasured);
}

test("a Pod is measured on its own from one second, and with the others again below that", () => {
  const slow = { kind: "measured", tookMs: 1_001 } as const;
  expect(after(slow)).toMatchObject({ isSlow: true, dueAt: at.now + 10_010 });
  expect(after(slow, { kind: "measured", tookMs: 1_000 })).toMatchObject({ isSlow: false, dueAt: at.now });
});

test("running out of time together with others does not count against a Pod", () => {
  expect(after({ kind: "timedOut" })).toMatchObject({ isSlow: true, dueAt: at.now, timeouts: 0 });
  expect(after({ kind: "timedOut" }, { kind: "timedOut" })).toMatchObject({
    isSlow: true,
    dueAt: at.now + 10_000,
    timeouts: 1,
  });
});

test("a failure of the program that counts neither counts against a Pod nor clears its timeouts", () => {
  const timedOut = { kind: "timedOut" } as const;
  expect(after(timedOut, timedOut, { kind: "failed" })).toMatchObject({ dueAt: at.now + 10_000, timeouts: 1 });
  expect(after(timedOut, timedOut, { kind: "failed" }, timedOut)).toMatchObject({ timeouts: 2 });
});
