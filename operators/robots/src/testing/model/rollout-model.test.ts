import { expect, it } from "vitest";
import { RolloutModel, type RolloutModelOptions, type RolloutModelResult } from "./rollout-model.ts";

/** Set MODEL_SEEDS for a longer check. */
const seeds = Number(process.env.MODEL_SEEDS ?? 10);

function check(options: Omit<RolloutModelOptions, "seed">): readonly Omit<RolloutModelResult, "violations">[] {
  return Array.from({ length: seeds }, (_, index) => {
    const { violations, ...result } = new RolloutModel({ seed: index + 1, ...options }).run();
    expect(violations, `seed ${index + 1}`).toEqual([]);
    return result;
  });
}

it.each([1, 3])("a rollout ends on the new revision, with at most %i tasks unavailable", (maxParallel) => {
  const results = check({ policy: { maxParallel }, broken: 0 });
  expect(results.every(({ phase }) => phase === "completed")).toBe(true);
  expect(Math.max(...results.map(({ maxUpdating }) => maxUpdating))).toBe(maxParallel);
});

it("a rollout to a broken revision ends in a revert", () => {
  const results = check({ policy: { maxParallel: 3 }, broken: 12 });
  expect(results.every(({ phase }) => phase === "failed")).toBe(true);
});

it("a rollout tolerates as many unhealthy tasks as it may, without updating more at the same time", () => {
  const results = check({ policy: { maxParallel: 2, maxUnhealthy: 4 }, broken: 4 });
  expect(results.every(({ phase }) => phase === "completed")).toBe(true);
});

it("a rollout fails with the first unhealthy task beyond its threshold", () => {
  const results = check({ policy: { maxParallel: 2, maxUnhealthy: 2 }, broken: 8 });
  expect(results.every(({ phase }) => phase === "failed")).toBe(true);
});

it("robots that return after a rollout do not exceed its threshold", () => {
  // The robots of the first are away while the rollout decides, so that it completes.
  for (const seed of [10_081, 10_181]) {
    const { violations, phase } = new RolloutModel({ seed, policy: { maxParallel: 2, maxUnhealthy: 2 }, broken: 8 }).run();
    expect([violations, phase]).toEqual([[], "completed"]);
  }
});

it.each([3, 10, 25])("a spec that changes after %i steps of a rollout makes no more tasks unavailable", (changeAfter) => {
  const results = check({ policy: { maxParallel: 3 }, broken: 0, changeAfter });
  expect(results.every(({ phase }) => phase === "completed")).toBe(true);
});
