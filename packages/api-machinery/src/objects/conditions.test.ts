import { expect, test } from "vitest";
import { findCondition, isConditionTrue, removeConditions, setCondition } from "./conditions.ts";

const first = setCondition(undefined, { type: "Ready", status: false, reason: "Starting" }, 0);

test("stamps a new condition with the current time", () => {
  expect(first).toEqual([
    { type: "Ready", status: "False", lastTransitionTime: "1970-01-01T00:00:00Z", reason: "Starting", message: "" },
  ]);
  expect(isConditionTrue(first, "Ready")).toBe(false);
  expect(findCondition(first, "Other")).toBeUndefined();
});

test("changes lastTransitionTime only when the status changes", () => {
  const again = setCondition(first, { type: "Ready", status: "False", reason: "Waiting", observedGeneration: 2 }, 60_000);
  expect(again[0]).toMatchObject({ reason: "Waiting", observedGeneration: 2, lastTransitionTime: "1970-01-01T00:00:00Z" });
  const flipped = setCondition(again, { type: "Ready", status: true, reason: "Started" }, 60_000);
  expect(flipped[0]).toMatchObject({ status: "True", lastTransitionTime: "1970-01-01T00:01:00Z" });
  expect(isConditionTrue(flipped, "Ready")).toBe(true);
  expect(first[0]?.reason).toBe("Starting");
});

test("returns the same list when nothing changes", () => {
  expect(setCondition(first, { type: "Ready", status: "False", reason: "Starting", message: "" }, 99_000)).toBe(first);
  expect(removeConditions(first, "Other")).toBe(first);
  expect(removeConditions(first, "Ready")).toEqual([]);
});

test("keeps the order of the other conditions", () => {
  const two = setCondition(first, { type: "Failed", status: "Unknown", reason: "A" }, 0);
  expect(setCondition(two, { type: "Ready", status: "True", reason: "B" }, 0).map(({ type }) => type)).toEqual([
    "Ready",
    "Failed",
  ]);
});
