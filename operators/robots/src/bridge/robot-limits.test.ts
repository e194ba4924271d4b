import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { ownerOf, RegistrationLimits } from "./robot-limits.ts";

const count = (accept: () => boolean, tries: number): number => Array.from({ length: tries }, accept).filter(Boolean).length;

it("limits deletions and resends per robot, and permits more later", async () => {
  const clock = createVirtualClock();
  const limits = new RegistrationLimits(clock);
  expect(count(() => limits.mayDelete("a"), 3_700)).toBe(1024);
  expect(count(() => limits.mayResend("a"), 100)).toBe(10);
  expect([limits.mayDelete("b"), limits.mayResend("b")]).toEqual([true, true]);
  await clock.advance(10_000);
  expect(count(() => limits.mayDelete("a"), 3_700)).toBe(100);
  expect(count(() => limits.mayResend("a"), 100)).toBe(1);
});

it("counts each kind of message of a robot separately, and most narrowly what anyone may have sent", () => {
  expect(ownerOf("report", "a").maxPending).toBe(1024);
  expect(ownerOf("sharedRegistration", "a").maxPending).toBe(16);
  expect(
    new Set((["report", "lease", "join", "registration", "sharedRegistration"] as const).map((kind) => ownerOf(kind, "a").name))
      .size,
  ).toBe(5);
});
