import { describe, expect, test } from "vitest";
import { freeRange, idRangeSize } from "./id-range.ts";

describe("ranges of user ids", () => {
  test("do not overlap and stay below the highest valid id", () => {
    const used = new Set<number>();
    for (let index = 0; index < 500; index += 1) used.add(freeRange({ tag: "same" }, used));
    expect(used.size).toBe(500);
    for (const firstId of used) {
      expect(firstId % idRangeSize).toBe(0);
      expect(firstId).toBeGreaterThanOrEqual(2 ** 31);
      expect(firstId + idRangeSize).toBeLessThan(2 ** 32);
    }
  });

  test("are found while a single one is free, and their exhaustion is reported", () => {
    const all = new Set<number>();
    for (let firstId = 2 ** 31; firstId < 2 ** 32 - idRangeSize; firstId += idRangeSize) all.add(firstId);
    expect(() => freeRange({ tag: "one" }, all)).toThrow("all 32767 ranges of user ids are in use");
    all.delete(2 ** 31);
    expect(freeRange({ tag: "one" }, all)).toBe(2 ** 31);
  });
});
