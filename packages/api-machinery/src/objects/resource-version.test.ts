import fc from "fast-check";
import { expect, test } from "vitest";
import { compareResourceVersions } from "./resource-version.ts";

test("compares resourceVersions as integers of any size", () => {
  const any = fc.bigInt({ min: 0n, max: 2n ** 128n });
  fc.assert(
    fc.property(any, any, (a, b) => {
      expect(Math.sign(compareResourceVersions(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
    }),
  );
});

test.each(["", "abc", "-1", "01", "1.0"])("rejects the resourceVersion %j", (version) => {
  expect(() => compareResourceVersions("1", version)).toThrow(
    `resourceVersion ${JSON.stringify(version)} is not a decimal number`,
  );
});
