import { expect, it } from "vitest";
import { invalid } from "./errors.ts";

it("names a repeated cause of an invalid object once in the message, and lists every cause", () => {
  const cause = { reason: "FieldValueRequired", field: "spec.a", message: "Required value" };
  const error = invalid({ group: "", kind: "Pod" }, "p", [cause, cause]);
  expect(error.message).toBe('Pod "p" is invalid: spec.a: Required value');
  expect(error.status.details?.causes).toEqual([cause, cause]);
});
