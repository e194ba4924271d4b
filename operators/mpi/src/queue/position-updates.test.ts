import { describe, expect, it } from "vitest";
import { maxPositionUpdates, PositionUpdates, positionIntervalMs } from "./position-updates.ts";

const at = (...positions: number[]) => positions.map((position) => ({ position }));
const positionsOf = (updates: readonly { readonly position: number }[]) => updates.map(({ position }) => position);

describe("updates of positions", () => {
  it("are written in batches from the head of the queue, so that a long queue does not delay admissions", () => {
    const updates = new PositionUpdates();
    const all = at(...Array.from({ length: 25 }, (_, index) => 25 - index));
    let left = all;
    const batches: number[][] = [];
    for (let now = 0; left.length > 0; now += positionIntervalMs) {
      const { due, waitMs } = updates.take(left, now);
      batches.push(positionsOf(due));
      left = left.filter((each) => !due.includes(each));
      expect(waitMs).toBe(left.length === 0 ? undefined : positionIntervalMs);
    }
    expect(batches.map(({ length }) => length)).toEqual([maxPositionUpdates, maxPositionUpdates, 5]);
    expect(batches.flat()).toEqual(positionsOf(all).toSorted((a, b) => a - b));
  });

  it("wait for the rest of the interval after the last batch", () => {
    const updates = new PositionUpdates();
    expect(updates.take(at(2, 1), 5000).due).toEqual(at(1, 2));
    expect(updates.take([], 5100)).toEqual({ due: [] });
    expect(updates.take(at(3), 5100)).toEqual({ due: [], waitMs: positionIntervalMs - 100 });
    expect(updates.take(at(3), 5000 + positionIntervalMs)).toEqual({ due: at(3) });
  });
});
