import { expect, test } from "vitest";
import { hasFinalizer, isBeingDeleted, withFinalizer, withoutFinalizer } from "./finalizers.ts";

const object = { metadata: { finalizers: ["a", "b", "a"] } };

test("a finalizer is added once, at the end", () => {
  expect(withFinalizer(object, "c")).toEqual(["a", "b", "a", "c"]);
  expect(withFinalizer(object, "a")).toBe(object.metadata.finalizers);
  expect(withFinalizer({ metadata: {} }, "a")).toEqual(["a"]);
});

test("every equal finalizer is removed, and no other", () => {
  expect(withoutFinalizer(object, "a")).toEqual(["b"]);
  expect(withoutFinalizer(object, "x")).toBe(object.metadata.finalizers);
  expect(hasFinalizer(object, "b")).toBe(true);
  expect(hasFinalizer({ metadata: {} }, "b")).toBe(false);
});

test("an object with a deletion timestamp is being deleted", () => {
  expect(isBeingDeleted({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })).toBe(true);
  expect(isBeingDeleted({ metadata: {} })).toBe(false);
});
