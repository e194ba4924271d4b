import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, test } from "vitest";
import { steadyTime } from "./steady-time.ts";

test("advances with time but not when the wall clock is set", async () => {
  const clock = createVirtualClock();
  const now = steadyTime(clock);
  const start = now();
  expect(start).toBe(clock.now());
  clock.jump(-3_600_000);
  await clock.advance(5_000);
  clock.jump(7_200_000);
  expect(now() - start).toBe(5_000);
});
