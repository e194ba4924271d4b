import { expect, test } from "vitest";
import {
  childPath,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  invalidError,
  notFoundCause,
  requiredCause,
} from "./field-causes.ts";

test("puts several causes in brackets and each distinct one once", () => {
  const type = { group: "example.com", kind: "Widget" };
  expect(invalidError(type, "x", [requiredCause("spec.a")])).toMatchObject({
    code: 422,
    message: 'Widget.example.com "x" is invalid: spec.a: Required value',
    status: {
      reason: "Invalid",
      details: {
        name: "x",
        group: "example.com",
        kind: "Widget",
        causes: [{ reason: "FieldValueRequired", field: "spec.a", message: "Required value" }],
      },
    },
  });
  const several = [
    requiredCause("spec.a"),
    invalidCause("spec.b", -1, "must be greater than or equal to 0"),
    requiredCause("spec.a"),
  ];
  expect(invalidError({ group: "", kind: "Pod" }, "p", several).message).toBe(
    'Pod "p" is invalid: [spec.a: Required value, spec.b: Invalid value: -1: must be greater than or equal to 0]',
  );
});

test("formats values as Kubernetes does", () => {
  expect(duplicateCause("a", "x").message).toBe('Duplicate value: "x"');
  expect(notFoundCause("a", "missing").message).toBe('Not found: "missing"');
  expect(invalidCause("a", undefined, "").message).toBe("Invalid value: null");
  expect(forbiddenCause("a", "field is immutable").message).toBe("Forbidden: field is immutable");
  expect([childPath("", "a"), childPath("a", "b")]).toEqual(["a", "a.b"]);
});
