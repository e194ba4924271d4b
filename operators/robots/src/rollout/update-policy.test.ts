import { expect, it } from "vitest";
import { completeUpdatePolicy } from "./update-policy.ts";

it("takes the group's fields, then the Job's, then the defaults", () => {
  expect(completeUpdatePolicy([{ canary: 1 }, { canary: 2, maxParallel: "25%", abortThreshold: "25%" }], 10)).toMatchObject({
    canary: 1,
    maxParallel: 3,
    maxUnhealthy: 2,
    minHealthyMs: 10_000,
    healthyDeadlineMs: 300_000,
    progressDeadlineMs: 600_000,
    autoRevert: false,
  });
});

it("updates at least one task at a time", () => {
  expect(completeUpdatePolicy([{ maxParallel: 0 }], 10).maxParallel).toBe(1);
  expect(completeUpdatePolicy([{ maxParallel: "1%" }], 10).maxParallel).toBe(1);
  expect(completeUpdatePolicy([{ maxParallel: "10%" }], 0).maxParallel).toBe(1);
});
