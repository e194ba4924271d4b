import { createVirtualClock } from "@keelson/api-machinery/testing";
import { expect, it } from "vitest";
import { KeyedRates, publishLimit } from "./keyed-rates.ts";

const { burst, perSecond } = publishLimit;
const accepted = (rates: KeyedRates, robotId: string, count: number): number =>
  Array.from({ length: count }, () => rates.accept(robotId)).filter(Boolean).length;

it("accepts a burst, then the average rate, for each robot of its own", async () => {
  const clock = createVirtualClock(0);
  const rates = new KeyedRates(clock, publishLimit);
  expect(accepted(rates, "a", burst + 50)).toBe(burst);
  expect(accepted(rates, "b", 10)).toBe(10);
  await clock.advance(1_000);
  expect(accepted(rates, "a", burst)).toBe(perSecond);
  await clock.advance(3_600_000);
  expect(accepted(rates, "c", 1)).toBe(1);
  expect(accepted(rates, "a", burst + 50)).toBe(burst);
});

it("counts several together, or none of them", () => {
  const rates = new KeyedRates(createVirtualClock(0), { burst: 10, perSecond: 1 });
  expect([rates.accept("a", 8), rates.accept("a", 3), rates.accept("a", 2)]).toEqual([true, false, true]);
});
