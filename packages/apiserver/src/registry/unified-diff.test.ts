import { describe, expect, it } from "vitest";
import { valueDifference } from "./unified-diff.ts";

describe("the difference of two values", () => {
  it("shows changed lines with three lines around them", () => {
    const value = { args: ["a", "b", "c", "d", "e", "f", "g", "h"] };
    expect(valueDifference(value, { args: value.args.with(4, "E") })).toBe(
      ["@@ -4,7 +4,7 @@", '   "b",', '   "c",', '   "d",', '-  "e",', '+  "E",', '   "f",', '   "g",', '   "h"', ""].join("\n"),
    );
    expect(valueDifference(value, structuredClone(value))).toBe("");
  });

  it("is not computed for values that would take long or fill the message", () => {
    const text = "x".repeat(70_000);
    expect(valueDifference({ text }, { text: `${text}y` })).toBe("");
    const many = Array.from({ length: 2_000 }, (_, index) => index);
    expect(valueDifference(many, [...many, 0])).toBe("");
    const repeated = Array.from({ length: 1_400 }, (_, index) => index % 95);
    expect(valueDifference(repeated, repeated.toReversed())).toBe("");
  });

  it("is computed for a large value with a few changes", () => {
    const items = Array.from({ length: 300 }, (_, index) => ({ name: `n${index}`, value: "same" }));
    const after = items.map((item, index) => (index % 100 === 50 ? { ...item, value: "changed" } : item));
    expect(valueDifference(items, after).match(/^\+ {2}"value": "changed"$/gm)).toHaveLength(3);
  });
});
