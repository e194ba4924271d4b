import { expect, it } from "vitest";
import type { Task } from "../api/task.ts";
import { after, t0, taskOf } from "../testing/objects.ts";
import { decideLease, grantPeriodMs } from "./lease-decision.ts";

const running: NonNullable<Task["status"]> = {
  state: "running",
  attempt: 2,
  lease: { attempt: 2, grantsUntil: after(10 * 60_000) },
};
const decide = (status: Task["status"], { attempt = 2, robotId = "robot-001", now = t0, deleting = false } = {}) =>
  decideLease(taskOf(status, { bound: true, deleting }), { robotId, attempt }, now);

it("grants the current attempt on the task's robot until the recorded time comes near", () => {
  expect(decide(running)).toEqual({ kind: "grant" });
  expect(decide({ ...running, state: "dispatching" })).toEqual({ kind: "grant" });
});

it("records a later time before the recorded one has passed", () => {
  const lease = { attempt: 2, grantsUntil: after(6 * 60_000 + grantPeriodMs) };
  expect(decide(running, { now: t0 + 6 * 60_000 })).toEqual({ kind: "raise", lease, mayGrant: true });
  const recorded = { ...running, lease: { attempt: 2, grantsUntil: after(10 * 60_000), durationMs: 120_000 } };
  expect(decide(recorded, { now: t0 + 6 * 60_000 })).toMatchObject({ lease: { ...lease, durationMs: 120_000 } });
  expect(decide(running, { now: t0 + 10 * 60_000 })).toMatchObject({ kind: "raise", mayGrant: false });
});

it.each([
  ["another robot", running, { robotId: "robot-002" }],
  ["an earlier attempt", running, { attempt: 1 }],
  ["a later attempt", running, { attempt: 3 }],
  ["an attempt that has ended", { ...running, state: "exited" as const }, {}],
  ["a task that was moved", { ...running, state: "pending" as const, movedFrom: "robot-001" }, {}],
  ["a task that is being deleted", running, { deleting: true }],
  ["an attempt that was dispatched without a lease", { ...running, lease: { attempt: 1, grantsUntil: after(1e9) } }, {}],
])("refuses %s", (_, status, request) => {
  expect(decide(status, request).kind).toBe("refuse");
});

it("refuses a task that does not exist", () => {
  expect(decideLease(undefined, { robotId: "robot-001", attempt: 1 }, t0).kind).toBe("refuse");
});
