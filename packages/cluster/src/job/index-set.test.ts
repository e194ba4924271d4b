import fc from "fast-check";
import { expect, test } from "vitest";
import { formatIndexes, parseIndexes } from "./index-set.ts";

test("formats runs of three and more indexes as ranges", () => {
  expect(formatIndexes(new Set([7, 3, 4, 5, 1, 9, 10]))).toBe("1,3-5,7,9,10");
  expect(formatIndexes(new Set())).toBe("");
});

test("parses what it formats", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(99)), (indexes) => {
      expect([...parseIndexes(formatIndexes(new Set(indexes)), 100)]).toEqual(indexes.toSorted((a, b) => a - b));
    }),
  );
});

test("ignores malformed parts and indexes beyond the completions, however large", () => {
  expect([...parseIndexes("1,x,3-999999999,-2,", 5)]).toEqual([1, 3, 4]);
  expect([...parseIndexes(undefined, 5)]).toEqual([]);
});
