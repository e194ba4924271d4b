import fc from "fast-check";
import { expect, test } from "vitest";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  isQuantity,
  parseQuantity,
  quantityToBytes,
  quantityToMillis,
  subtractQuantities,
} from "./quantity.ts";

test.each<[string | number, string]>([
  ["0", "0"],
  ["0Gi", "0"],
  ["1.5", "1500m"],
  ["0.5", "500m"],
  [".5", "500m"],
  ["5.", "5"],
  [2, "2"],
  [0.1, "100m"],
  ["100m", "100m"],
  ["1000m", "1"],
  ["1000", "1k"],
  ["1024", "1024"],
  ["1.5Gi", "1536Mi"],
  ["1024Mi", "1Gi"],
  ["0.5Ki", "512"],
  ["1.1Ki", "1126400m"],
  ["1e3", "1e3"],
  ["12E6", "12e6"],
  ["1500e-3", "1500e-3"],
  ["+1k", "1k"],
  ["-1.5Gi", "-1536Mi"],
  ["0.1n", "1n"],
  ["-0.1n", "-1n"],
  ["1E", "1E"],
  ["1e99", "9223372036854775807"],
  ["1e-400", "1e-9"],
])("the quantity %j is written %s", (text, canonical) => {
  expect(formatQuantity(text)).toBe(canonical);
  expect(compareQuantities(text, canonical)).toBe(0);
});

test.each(["", ".", "1 Gi", "Gi", "1gi", "1.2.3", "abc", "0x10", "1KiB", "--1", "1e", "NaN", "Infinity", "1".repeat(500)])(
  "rejects the quantity %j",
  (text) => {
    expect(() => parseQuantity(text)).toThrow("quantities must match the regular expression");
    expect(isQuantity(text)).toBe(false);
  },
);

test("rounds bytes and millis away from zero", () => {
  expect(quantityToBytes("1Gi")).toBe(2 ** 30);
  expect(quantityToBytes("100m")).toBe(1);
  expect(quantityToBytes("-100m")).toBe(-1);
  expect(quantityToMillis("250m")).toBe(250);
  expect(quantityToMillis("2")).toBe(2000);
  expect(quantityToMillis("1n")).toBe(1);
});

test("gives a sum the format of the first operand that is not zero", () => {
  expect(formatQuantity(addQuantities("0", "1Gi"))).toBe("1Gi");
  expect(formatQuantity(addQuantities("1Gi", "1G"))).toBe("2073741824");
  expect(formatQuantity(subtractQuantities("1", "250m"))).toBe("750m");
});

const quantity = fc
  .tuple(
    fc.constantFrom("", "-"),
    fc.nat({ max: 999_999 }),
    fc.option(fc.nat({ max: 999 }), { nil: undefined }),
    fc.constantFrom("n", "u", "m", "", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e2", "E-3"),
  )
  .map(([sign, whole, fraction, suffix]) => `${sign}${whole}${fraction === undefined ? "" : `.${fraction}`}${suffix}`);

test("formats the same amount, idempotently", () => {
  fc.assert(
    fc.property(quantity, (text) => {
      const canonical = formatQuantity(text);
      expect(parseQuantity(canonical).nanos).toBe(parseQuantity(text).nanos);
      expect(formatQuantity(canonical)).toBe(canonical);
      expect(canonical).not.toContain(".");
    }),
  );
});

test("subtracts what it added", () => {
  fc.assert(
    fc.property(quantity, quantity, (a, b) => {
      expect(compareQuantities(subtractQuantities(addQuantities(a, b), b), a)).toBe(0);
    }),
  );
});
