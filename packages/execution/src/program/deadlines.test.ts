import { expect, test } from "vitest";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { Deadlines } from "./deadlines.ts";
import type { Deadline } from "./deadlines.ts";

test("serves many deadlines with one timer and fires them in order", async () => {
  const clock = createVirtualClock();
  const deadlines = new Deadlines(clock);
  const fired: string[] = [];
  for (const [name, ms] of [
    ["c", 30],
    ["a", 10],
    ["b", 20],
  ] as const)
    deadlines.after(ms, () => fired.push(`${name}@${clock.monotonic()}`));
  expect(clock.pendingTimers).toBe(1);
  await clock.advance(100);
  expect(fired).toEqual(["a@10", "b@20", "c@30"]);
  expect(clock.pendingTimers).toBe(0);
});

test("does not fire a cancelled deadline, even if another due deadline cancels it", async () => {
  const clock = createVirtualClock();
  const deadlines = new Deadlines(clock);
  const fired: string[] = [];
  const late = deadlines.after(10, () => fired.push("cancelled"));
  deadlines.after(5, () => fired.push("first"));
  late.cancel();
  let second: Deadline | undefined;
  deadlines.after(20, () => second?.cancel());
  second = deadlines.after(20, () => fired.push("cancelled by its neighbour"));
  await clock.advance(100);
  expect(fired).toEqual(["first"]);
  expect([deadlines.size, clock.pendingTimers]).toEqual([0, 0]);
});

test("ignores jumps of the wall clock", async () => {
  const clock = createVirtualClock();
  const deadlines = new Deadlines(clock);
  let fired = 0;
  deadlines.after(1000, () => fired++);
  clock.jump(3_600_000);
  await clock.advance(999);
  expect(fired).toBe(0);
  clock.jump(-7_200_000);
  await clock.advance(1);
  expect(fired).toBe(1);
});
