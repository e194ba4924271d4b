import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ArrivalSchedule } from "./arrival-schedule.ts";
import { levelAt } from "./load-plan.ts";

const stage = (durationMs: number, from: number, to = from) => ({ durationMs, from, to });
const times = (...stages: readonly ReturnType<typeof stage>[]): readonly number[] => {
  const schedule = new ArrivalSchedule(stages);
  return Array.from({ length: schedule.total }, (_, n) => Number(schedule.timeOf(n).toFixed(3)));
};

describe("the schedule of an open model", () => {
  it("spaces the requests of a constant rate evenly", () => {
    expect(times(stage(1_000, 4))).toEqual([0, 250, 500, 750]);
  });

  it("follows ramps and pauses", () => {
    // Up to 8/s within a second: 4 requests, request n at sqrt(n / 4) s.
    expect(times(stage(1_000, 0, 8))).toEqual([0, 500, 707.107, 866.025]);
    expect(times(stage(500, 2), stage(1_000, 0), stage(1_000, 2))).toEqual([0, 1_500, 2_000]);
    expect(times(stage(1_000, 0))).toEqual([]);
  });

  it("has as many requests as the rate yields, in order, none before or after the stages", () => {
    const stages = fc.array(
      fc.record({
        durationMs: fc.integer({ min: 1, max: 5_000 }),
        from: fc.integer({ min: 0, max: 200 }),
        to: fc.integer({ min: 0, max: 200 }),
      }),
      { minLength: 1, maxLength: 5 },
    );
    fc.assert(
      fc.property(stages, (each) => {
        const schedule = new ArrivalSchedule(each);
        const expected = each.reduce((sum, { durationMs, from, to }) => sum + ((from + to) / 2_000) * durationMs, 0);
        expect(Math.abs(schedule.total - expected)).toBeLessThanOrEqual(1);
        const end = each.reduce((sum, { durationMs }) => sum + durationMs, 0);
        let last = 0;
        for (let n = 0; n < schedule.total; n++) {
          const time = schedule.timeOf(n);
          expect(time).toBeGreaterThanOrEqual(last);
          expect(time).toBeLessThanOrEqual(end);
          last = time;
        }
      }),
    );
  });

  it("is interpolated between the stages for users too", () => {
    const plan = { stages: [stage(1_000, 0, 10), stage(1_000, 10)] };
    expect([0, 500, 1_000, 1_999, 2_000].map((ms) => levelAt(plan, ms))).toEqual([0, 5, 10, 10, 0]);
  });
});
