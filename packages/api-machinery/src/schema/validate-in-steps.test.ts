import { expect, test } from "vitest";
import { groupSteps, type Steps } from "../values/steps.ts";
import type { Schema } from "./schema.ts";
import { validateInSteps } from "./validate.ts";

/** The number of steps before the end. */
function countSteps(steps: Steps<unknown>): number {
  let count = 0;
  while (steps.next().done !== true) count++;
  return count;
}

const text: Schema = { type: "string" };
const object: Schema = { type: "object", properties: { a: text } };

test.each<[string, Schema, unknown, number]>([
  ["objects in a list", { type: "array", items: object }, Array.from({ length: 1_000 }, () => ({ a: "b" })), 1_000],
  ["texts in a list", { type: "array", items: text }, Array.from({ length: 10_000 }, () => "b"), 1_000],
  [
    "texts in a map",
    { type: "object", additionalProperties: text },
    Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, "b"])),
    1_000,
  ],
])("validates %s in steps", (_, schema, value, least) => {
  expect(countSteps(validateInSteps(schema, value))).toBeGreaterThanOrEqual(least);
});

test("groups steps without changing the result", () => {
  const value = Array.from({ length: 1_000 }, () => 1);
  const steps = groupSteps(validateInSteps({ type: "array", items: text, maxItems: 1_000 }, value), 10);
  let count = 0;
  let last = steps.next();
  for (; last.done !== true; last = steps.next()) count++;
  expect([count, last.value.length]).toEqual([10, 1_000]);
});
