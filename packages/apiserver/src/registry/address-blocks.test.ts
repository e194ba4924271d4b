import { describe, expect, it } from "vitest";
import { isStrictlyWithin, parseAddressBlock } from "./address-blocks.ts";

describe("parseAddressBlock", () => {
  it.each(["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "x/8", "10.0.0.0/8/8", "10.0.0.0/08", "fd00::/129", ""])(
    "%j is not a block",
    (text) => {
      expect(parseAddressBlock(text)).toBeUndefined();
    },
  );

  it.each([
    ["10.1.0.0/16", "10.0.0.0/8", true],
    ["10.0.0.0/8", "10.0.0.0/8", false],
    ["11.0.0.0/16", "10.0.0.0/8", false],
    ["0.0.0.0/1", "0.0.0.0/0", true],
    ["fd00:1::/32", "fd00::/16", true],
    ["fd01::/32", "fd00::/16", false],
    ["::ffff:10.0.0.0/120", "::ffff:a00:0/112", true],
    ["10.0.0.0/8", "::/0", false],
  ])("%s is within %s: %j", (inner, outer, expected) => {
    const [a, b] = [parseAddressBlock(inner), parseAddressBlock(outer)];
    if (a === undefined || b === undefined) throw new Error("both are blocks");
    expect(isStrictlyWithin(a, b)).toBe(expected);
  });
});
