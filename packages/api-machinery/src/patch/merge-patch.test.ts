import fc from "fast-check";
import { expect, test } from "vitest";
import { deepFreeze, jsonEquals } from "../objects/json.ts";
import { mergePatch, mergePatchOf } from "./merge-patch.ts";

// The examples of RFC 7386, appendix A, whose patch is an object.
test.each<[unknown, Record<string, unknown>, unknown]>([
  [{ a: "b" }, { a: "c" }, { a: "c" }],
  [{ a: "b" }, { b: "c" }, { a: "b", b: "c" }],
  [{ a: "b" }, { a: null }, {}],
  [{ a: "b", b: "c" }, { a: null }, { b: "c" }],
  [{ a: ["b"] }, { a: "c" }, { a: "c" }],
  [{ a: "c" }, { a: ["b"] }, { a: ["b"] }],
  [{ a: { b: "c" } }, { a: { b: "d", c: null } }, { a: { b: "d" } }],
  [{ a: [{ b: "c" }] }, { a: [1] }, { a: [1] }],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: "b", c: null }, { a: "b" }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])("%j with %j is %j", (target, patch, expected) => {
  expect(mergePatch(deepFreeze(target), deepFreeze(patch))).toEqual(expected);
});

test("returns the target if nothing changes and shares unchanged parts otherwise", () => {
  const target = deepFreeze({ a: { x: [1, { y: 2 }] }, b: { z: 1 } });
  expect(mergePatch(target, { a: { x: [1, { y: 2 }] }, c: null })).toBe(target);
  expect((mergePatch(target, { b: { z: 2 } }) as typeof target).a).toBe(target.a);
});

test.each([null, [], "x", 1])("rejects the patch %j", (patch) => {
  expect(() => mergePatch({}, patch)).toThrow(expect.objectContaining({ code: 400 }));
});

test("rejects a patch that nests too deep", () => {
  let patch: Record<string, unknown> = {};
  for (let depth = 0; depth < 100_000; depth++) patch = { a: patch };
  expect(() => mergePatch({}, patch)).toThrow("deeper than 1000 levels");
});

test("treats names of the prototype as ordinary members", () => {
  const result = mergePatch({}, JSON.parse('{"__proto__":{"polluted":true}}')) as object;
  expect(Object.hasOwn(result, "__proto__")).toBe(true);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

/** JSON objects without nulls, which a merge patch cannot produce. */
const object = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.integer(),
    fc.string({ maxLength: 3 }),
    fc.boolean(),
    fc.array(fc.integer(), { maxLength: 3 }),
    tie("object"),
  ),
  object: fc.dictionary(fc.constantFrom("a", "b", "c", "__proto__", "constructor"), tie("value"), { noNullPrototype: true }),
})).object;

test("computes a patch that turns one object into the other", () => {
  fc.assert(
    fc.property(object, object, (before, after) => {
      const patch = mergePatchOf(before, after);
      expect(mergePatch(before, patch ?? {})).toEqual(after);
      expect(patch === undefined).toBe(jsonEquals(before, after));
    }),
  );
});

test("applies patches idempotently", () => {
  fc.assert(
    fc.property(object, object, (target, patch) => {
      const once = mergePatch(target, patch);
      expect(mergePatch(once, patch)).toBe(once);
    }),
  );
});
