import { expect, test } from "vitest";
import {
  causesOfItems,
  childPath,
  duplicateCause,
  forbiddenCause,
  invalidCause,
  invalidError,
  maxCauses,
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

test("reads no more items once there are as many causes as an error reports", () => {
  let reads = 0;
  function* items(): Generator<number> {
    for (reads = 1; reads <= 39_000; reads++) yield reads;
  }
  const causes = causesOfItems(items(), (item, index) => [requiredCause(`a[${index}]`), requiredCause(`b[${item}]`)]);
  expect(causes).toHaveLength(maxCauses);
  expect(reads).toBe(maxCauses / 2);
  expect(causes.at(-1)).toEqual(requiredCause("b[500]"));
  expect(causesOfItems([1, 2], () => [])).toEqual([]);
});

test("reports a limited number of causes", () => {
  const causes = Array.from({ length: 39_000 }, (_, index) => requiredCause(`a[${index}]`));
  const { message, status } = invalidError({ group: "", kind: "Pod" }, "p", causes);
  expect(status.details?.causes).toEqual(causes.slice(0, maxCauses));
  expect(message.split(", ")).toHaveLength(maxCauses);
});

test("cuts off very long values, fields and names", () => {
  const long = "x".repeat(100_000);
  const cause = invalidCause(`data[${long}]`, long, "must be short");
  expect(cause.field).toHaveLength(16_387);
  expect(cause.message).toMatch(/^Invalid value: "x+\.\.\.": must be short$/);
  expect(cause.message?.length).toBeLessThan(16_500);
  const { message, status } = invalidError({ group: "", kind: "ConfigMap" }, long, [requiredCause("a")]);
  expect(message).toMatch(/^ConfigMap "x+\.\.\." is invalid: a: Required value$/);
  expect(status.details?.name).toHaveLength(16_387);
});
