import { expect, it } from "vitest";
import type { Task } from "../../api/task.ts";
import { FleetModel, type FleetModelOptions, type FleetModelResult } from "./fleet-model.ts";

/** Set MODEL_SEEDS for a longer check. */
const seeds = Number(process.env.MODEL_SEEDS ?? 8);

async function check(
  isExclusive: boolean,
  spec: Partial<Task["spec"]>,
  rest: Partial<FleetModelOptions> = {},
): Promise<Omit<FleetModelResult, "violations">> {
  const sum = { moves: 0, preempted: 0, leaseExpiries: 0, starts: 0 };
  for (let seed = 1; seed <= seeds; seed++) {
    const { violations, ...result } = await new FleetModel({ seed, spec, isExclusive, ...rest }).run();
    expect(violations, `seed ${seed}`).toEqual([]);
    sum.moves += result.moves;
    sum.preempted += result.preempted;
    sum.leaseExpiries += result.leaseExpiries;
    sum.starts += result.starts;
  }
  return sum;
}

it("an exclusive task never runs twice, and every task ends", async () => {
  const done = await check(true, {
    disconnect: { lostAfter: "2m", onRobot: "stop" },
    reschedulePolicy: { unlimited: true, delay: "10s", maxDelay: "1m" },
  });
  expect(done.moves).toBeGreaterThan(seeds);
  expect(done.leaseExpiries).toBeGreaterThan(0);
});

it.each(["keepOriginal", "keepReplacement"] as const)(
  "one attempt remains when a robot returns, with %s",
  async (reconcile) => {
    const done = await check(false, {
      disconnect: { lostAfter: "1m", onRobot: "keep", reconcile },
      reschedulePolicy: { unlimited: true, delay: "10s", maxDelay: "1m" },
    });
    expect(done.moves).toBeGreaterThan(seeds);
  },
);

it("a task without a policy stays on its robot and never runs twice", async () => {
  const done = await check(true, {});
  expect(done.moves).toBe(0);
});

it("a task ends although its robot has removed it because a bridge did not know it yet", async () => {
  const { violations } = await new FleetModel({ seed: 10_344, spec: {}, isExclusive: true }).run();
  expect(violations).toEqual([]);
});

it.each([0, 60_000])("a task that leaves its robot can be deleted, with tasks every %d ms", async (creationIntervalMs) => {
  const specOf = (index: number): Partial<Task["spec"]> => ({
    priority: 10 * index + 10,
    preemptionPolicy: "PreemptLowerPriority",
    resources: { cpu: "800m" },
  });
  await check(true, {}, { specOf, tasks: 6, creationIntervalMs, hasDeletions: true });
});

it.each([
  ["with a lease", { disconnect: { lostAfter: "2m", onRobot: "stop" as const } }],
  ["without one", {}],
])("a task that is preempted never runs twice, and ends as well, %s", async (_, spec) => {
  const specOf = (index: number): Partial<Task["spec"]> => ({
    priority: 10 * index + 10,
    preemptionPolicy: "PreemptLowerPriority",
    resources: { cpu: "800m" },
  });
  expect((await check(true, spec, { specOf, tasks: 6, creationIntervalMs: 60_000 })).preempted).toBeGreaterThan(seeds);
});
