import { expect, test } from "vitest";
import { Warnings } from "./warnings.ts";

function warningsOf(texts: Iterable<string>): readonly string[] {
  const warnings = new Warnings();
  for (const text of texts) warnings.add(text);
  return warnings.texts;
}

test("keeps each warning once, in order", () => {
  expect(warningsOf(["b", "a", "b", "", "c"])).toEqual(["b", "a", "c"]);
});

test("keeps long warnings whole while all fit in 4,096 characters", () => {
  const texts = ["a".repeat(4_000), "b".repeat(96)];
  expect(warningsOf(texts)).toEqual(texts);
});

test("shortens all warnings beyond 4,096 characters in total, and drops further ones", () => {
  const texts = warningsOf([
    "a".repeat(4_000),
    "short",
    "\u{1f600}".repeat(300),
    ...Array.from({ length: 9_000 }, (_, i) => `${i}: x`.padEnd(300)),
  ]);
  expect(texts.slice(0, 3)).toEqual(["a".repeat(256), "short", "\u{1f600}".repeat(256)]);
  const total = texts.reduce((sum, text) => sum + text.length, 0);
  expect(total).toBeGreaterThanOrEqual(4_096);
  expect(total).toBeLessThan(4_096 + 2 * 256);
});
