import { expect, it } from "vitest";
import { type CheckResult, type CheckState, checkStep, healthOf, initialCheckState } from "./check-state.ts";
import type { TaskCheck } from "./task-checks.ts";

const check = (more: Partial<TaskCheck> = {}): TaskCheck => ({
  ...{ name: "web", target: { type: "tcp", port: "80" }, intervalMs: 1000, timeoutMs: 1000 },
  ...more,
});
const restart = { limit: 3, graceMs: 10_000, ignoresWarnings: false };
const result = (status: CheckResult["status"]): CheckResult => ({ status, message: status });

/** Restarts after each of the results, seen at these ages in seconds. */
function restartsOf(of: TaskCheck, results: readonly (readonly [CheckResult["status"], number])[]): readonly boolean[] {
  let state: CheckState = initialCheckState(of);
  return results.map(([status, ageSeconds]) => {
    const step = checkStep(of, state, result(status), ageSeconds * 1000);
    state = step.state;
    return step.restart !== undefined;
  });
}

it("restarts after the limit of failures in a row, not counting those in the grace period", () => {
  const limited = check({ restart });
  expect(
    restartsOf(
      limited,
      [1, 5, 9, 11, 12, 13].map((age) => ["critical", age]),
    ),
  ).toEqual([false, false, false, false, false, true]);
  const interrupted = [
    ["critical", 11],
    ["critical", 12],
    ["passing", 13],
    ["critical", 14],
    ["critical", 15],
  ] as const;
  expect(restartsOf(limited, interrupted)).toEqual([false, false, false, false, false]);
  expect(
    restartsOf(
      check(),
      [1, 2, 3, 4].map((age) => ["critical", age * 100]),
    ),
  ).toEqual([false, false, false, false]);
  const step = checkStep(limited, { status: "critical", message: "", failures: 2 }, result("critical"), 11_000);
  expect(step.restart).toBe("check web failed 3 times in a row: critical");
});

it("counts warnings as failures unless they are ignored", () => {
  const warnings = [11, 12, 13].map((age) => ["warning", age] as const);
  expect(restartsOf(check({ restart }), warnings)).toEqual([false, false, true]);
  expect(restartsOf(check({ restart: { ...restart, ignoresWarnings: true } }), warnings)).toEqual([false, false, false]);
});

it("is passing while every check passes, and failing as soon as one does not", () => {
  const [a, b] = [check({ name: "a" }), check({ name: "b" })];
  const state = (status: CheckState["status"]): CheckState => ({ status, message: "x", failures: 0 });
  expect(
    healthOf([
      [a, state("passing")],
      [b, state(undefined)],
    ]),
  ).toBeUndefined();
  expect(
    healthOf([
      [a, state("passing")],
      [b, state("passing")],
    ]),
  ).toEqual({ health: "passing", message: "its 2 checks pass" });
  expect(
    healthOf([
      [a, state("warning")],
      [b, state(undefined)],
    ]),
  ).toEqual({ health: "failing", message: "check a fails: x" });
  expect(initialCheckState(check({ initialStatus: "passing" })).status).toBe("passing");
  expect(initialCheckState(check({ initialStatus: "critical" })).status).toBeUndefined();
});
