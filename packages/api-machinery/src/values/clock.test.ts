import { expect, test } from "vitest";
import { sleep } from "./clock.ts";
import { createVirtualClock } from "./virtual-clock.ts";

test("runs timers in order of their due time, with the clock at that time", async () => {
  const clock = createVirtualClock(0);
  const seen: [string, number][] = [];
  clock.setTimer(20, () => seen.push(["b", clock.now()]));
  clock.setTimer(10, () => {
    seen.push(["a", clock.now()]);
    clock.setTimer(5, () => seen.push(["nested", clock.now()]));
  });
  clock.setTimer(10, () => seen.push(["second at 10", clock.now()]));
  clock.setTimer(31, () => seen.push(["not yet", clock.now()]));
  await clock.advance(30);
  expect(seen).toEqual([
    ["a", 10],
    ["second at 10", 10],
    ["nested", 15],
    ["b", 20],
  ]);
  expect(clock.now()).toBe(30);
  expect(clock.pendingTimers).toBe(1);
});

test("jumps only the wall clock", async () => {
  const clock = createVirtualClock(1_000);
  clock.jump(-500);
  expect([clock.now(), clock.monotonic()]).toEqual([500, 0]);
});

test("rejects a sleep with the signal's reason and leaves no timer", async () => {
  const clock = createVirtualClock();
  const controller = new AbortController();
  const sleeping = sleep(clock, 1_000, controller.signal);
  controller.abort(new Error("enough"));
  await expect(sleeping).rejects.toThrow("enough");
  expect(clock.pendingTimers).toBe(0);
});
