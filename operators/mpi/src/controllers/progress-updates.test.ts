import { expect, it } from "vitest";
import type { Status } from "./job-status.ts";
import { progressIntervalMs, ProgressUpdates } from "./progress-updates.ts";

const time = "2026-01-01T00:00:00Z";
const conditionOf = (status: "True" | "False", message: string) => ({
  type: "Running",
  status,
  reason: "x",
  message,
  lastTransitionTime: time,
});
const before: Status = {
  jobStatus: "Pending",
  message: "0 of 2 workers running",
  conditions: [conditionOf("False", "0 of 2 workers running")],
};

it.each<[string, Status, number]>([
  ["messages and counts", { ...before, message: "1 of 2", conditions: [conditionOf("False", "1 of 2")] }, 700],
  ["the names of Pods", { ...before, workerPodNames: ["a", "b"] }, 700],
  ["the status", { ...before, jobStatus: "Running" }, 0],
  ["a condition", { ...before, conditions: [conditionOf("True", "running")] }, 0],
  ["the attempt", { ...before, attempt: 2 }, 0],
])("delays an update only if it changes nothing but progress: %s", (_, status, delayMs) => {
  const updates = new ProgressUpdates();
  expect(updates.delayMs("job", before, status, 1000)).toBe(0);
  updates.written("job", 1000);
  expect(updates.delayMs("job", before, status, 1300)).toBe(delayMs);
  expect(updates.delayMs("job", before, status, 1000 + progressIntervalMs)).toBe(0);
  updates.forget("job");
  expect(updates.delayMs("job", before, status, 1300)).toBe(0);
});
