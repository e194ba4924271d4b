import { expect, test } from "vitest";
import { hasFinalizer, isBeingDeleted, withFinalizer, withoutFinalizer } from "./finalizers.ts";

const object = { metadata: { finalizers: ["a", "b", "a"] } };

test("appends a finalizer once", () => {
  expect(withFinalizer(object, "c")).toEqual(["a", "b", "a", "c"]);
  expect(withFinalizer(object, "a")).toBe(object.metadata.finalizers);
  expect(withFinalizer({ metadata: {} }, "a")).toEqual(["a"]);
});

test("removes every occurrence of a finalizer and no other", () => {
  expect(withoutFinalizer(object, "a")).toEqual(["b"]);
  expect(withoutFinalizer(object, "x")).toBe(object.metadata.finalizers);
  expect(hasFinalizer(object, "b")).toBe(true);
  expect(hasFinalizer({ metadata: {} }, "b")).toBe(false);
});

test("reports an object with a deletion timestamp as being deleted", () => {
  expect(isBeingDeleted({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })).toBe(true);
  expect(isBeingDeleted({ metadata: {} })).toBe(false);
});
