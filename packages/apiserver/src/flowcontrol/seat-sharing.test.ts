import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SeatDemand } from "./seat-demand.ts";
import { shareSeats, type SharingLevel, smoothDemand } from "./seat-sharing.ts";

const level = (change: Partial<SharingLevel>): SharingLevel => ({
  nominal: 50,
  lendable: 25,
  borrowable: 200,
  peak: 0,
  demand: 0,
  ...change,
});

describe("shareSeats", () => {
  it("lends the seats of idle levels to a busy one, except those that they do not lend", () => {
    const idle = level({});
    expect(shareSeats(200, [level({ peak: 300, demand: 300 }), idle, idle, idle])).toEqual([125, 25, 25, 25]);
  });

  it("returns lent seats to a level that needs them itself", () => {
    const busy = level({ peak: 300, demand: 300 });
    const [borrower = 0, owner] = shareSeats(100, [busy, level({ peak: 50, demand: 50 })]);
    expect([borrower, owner]).toEqual([50, 50]);
  });

  it("does not exceed what a level may borrow", () => {
    expect(shareSeats(100, [level({ peak: 300, demand: 300, borrowable: 10 }), level({})])[0]).toBe(60);
  });

  it("divides seats in proportion to demand if several levels are busy", () => {
    const [small = 0, large = 0] = shareSeats(120, [
      level({ nominal: 10, lendable: 10, peak: 30, demand: 30 }),
      level({ nominal: 10, lendable: 10, peak: 90, demand: 90 }),
      level({ nominal: 100, lendable: 100 }),
    ]);
    expect(large / small).toBeCloseTo(3, 0);
  });

  it("never takes from a level what it does not lend, and gives out no more seats than there are", () => {
    const random = fc.record({
      nominal: fc.integer({ min: 1, max: 100 }),
      percent: fc.integer({ min: 0, max: 100 }),
      borrowable: fc.integer({ min: 0, max: 300 }),
      peak: fc.integer({ min: 0, max: 500 }),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(random, { minLength: 1, maxLength: 8 }), (drawn) => {
        const levels = drawn.map(({ nominal, percent, borrowable, peak, share }) => {
          return { nominal, lendable: Math.round((nominal * percent) / 100), borrowable, peak, demand: peak * share };
        });
        const total = levels.reduce((sum, { nominal }) => sum + nominal, 0);
        const shares = shareSeats(total, levels);
        for (const [index, { nominal, lendable, borrowable }] of levels.entries()) {
          expect(shares[index]).toBeGreaterThanOrEqual(nominal - lendable);
          expect(shares[index]).toBeLessThanOrEqual(nominal + borrowable);
        }
        // Each is rounded, and has at least one seat.
        expect(shares.reduce((sum, seats) => sum + seats, 0)).toBeLessThanOrEqual(total + levels.length);
      }),
    );
  });
});

describe("the demand of a level", () => {
  it("is weighted by time", () => {
    const demand = new SeatDemand(0);
    demand.add(4, 0);
    demand.add(-4, 25);
    expect(demand.take(100)).toEqual({ mean: 1, deviation: Math.sqrt(3), peak: 4 });
    expect(demand.take(200)).toEqual({ mean: 0, deviation: 0, peak: 0 });
  });

  it("rises immediately and falls slowly when smoothed", () => {
    const busy = smoothDemand(0, { mean: 40, deviation: 5, peak: 60 });
    expect(busy).toBe(45);
    const after = smoothDemand(busy, { mean: 0, deviation: 0, peak: 0 });
    expect(after).toBeGreaterThan(43);
    expect(after).toBeLessThan(busy);
  });
});
