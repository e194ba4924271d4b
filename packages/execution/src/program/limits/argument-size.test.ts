import { expect, test } from "vitest";
import { argumentSizeProblem, maxArgumentBytes } from "./argument-size.ts";

test("accepts arguments and variables up to the kernel's limit, and names the first above it", () => {
  const text = (bytes: number): string => "x".repeat(bytes);
  expect(argumentSizeProblem(["true", text(maxArgumentBytes - 1)], { A: text(maxArgumentBytes - 3) })).toBeUndefined();
  expect(argumentSizeProblem(["true", text(maxArgumentBytes)], {})).toMatch(
    /^command\[1\]: 131073 bytes exceed .* 131072 bytes/,
  );
  expect(argumentSizeProblem(["true"], { A: text(200_000) })).toMatch(/^env A: 200003 bytes/);
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`A${index}`, text(60_000)]));
  expect(argumentSizeProblem(["true"], many)).toMatch(/^command and env: /);
  expect(argumentSizeProblem(["ü".repeat(65_536)], {})).toMatch(/131073 bytes/);
});
