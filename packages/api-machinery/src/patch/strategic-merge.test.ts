import fc from "fast-check";
import { expect, test } from "vitest";
import { deepFreeze } from "../objects/json.ts";
import type { Schema } from "../schema/schema.ts";
import { isStatusError, type Status } from "../protocol/status.ts";
import { strategicMergePatch } from "./strategic-merge.ts";

const named = (properties: Record<string, Schema>, mergeKey = "name"): Schema => ({
  type: "array",
  items: { type: "object", properties },
  "x-kubernetes-patch-strategy": "merge",
  "x-kubernetes-patch-merge-key": mergeKey,
});

const schema: Schema = {
  type: "object",
  properties: {
    containers: named({ name: { type: "string" }, env: named({}), args: { type: "array" } }),
    ports: named({}, "port"),
    volumes: { ...named({ name: {} }), "x-kubernetes-patch-strategy": "merge,retainKeys" },
    finalizers: { type: "array", items: { type: "string" }, "x-kubernetes-patch-strategy": "merge" },
    tolerations: { type: "array", items: { type: "object" } },
    labels: { type: "object", additionalProperties: { type: "string" } },
    strategy: { type: "object", "x-kubernetes-patch-strategy": "retainKeys" },
    source: { type: "object", "x-kubernetes-patch-strategy": "replace" },
    keyless: { type: "array", items: { type: "object" }, "x-kubernetes-patch-strategy": "merge" },
  },
};

const apply = (target: object, patch: unknown) => strategicMergePatch(schema, deepFreeze(target), deepFreeze(patch));

test.each<[string, object, object, object]>([
  [
    "merges list items by key",
    {
      containers: [
        { name: "a", image: "1" },
        { name: "b", image: "1" },
      ],
    },
    { containers: [{ name: "b", image: "2" }] },
    {
      containers: [
        { name: "a", image: "1" },
        { name: "b", image: "2" },
      ],
    },
  ],
  [
    "puts new items first",
    { containers: [{ name: "a" }, { name: "b" }] },
    { containers: [{ name: "c" }] },
    { containers: [{ name: "c" }, { name: "a" }, { name: "b" }] },
  ],
  [
    "merges lists within items",
    {
      containers: [
        {
          name: "a",
          env: [
            { name: "X", value: "1" },
            { name: "Y", value: "2" },
          ],
        },
      ],
    },
    {
      containers: [
        {
          name: "a",
          env: [
            { name: "Y", value: "22" },
            { name: "Z", value: "3" },
          ],
        },
      ],
    },
    {
      containers: [
        {
          name: "a",
          env: [
            { name: "X", value: "1" },
            { name: "Y", value: "22" },
            { name: "Z", value: "3" },
          ],
        },
      ],
    },
  ],
  [
    "deletes an item",
    { containers: [{ name: "a" }, { name: "b" }] },
    { containers: [{ name: "b", $patch: "delete" }] },
    { containers: [{ name: "a" }] },
  ],
  [
    "puts items in the requested order",
    { containers: [{ name: "a", image: "1" }, { name: "c" }, { name: "own" }] },
    { "$setElementOrder/containers": [{ name: "c" }, { name: "a" }], containers: [{ name: "a", image: "9" }] },
    { containers: [{ name: "c" }, { name: "a", image: "9" }, { name: "own" }] },
  ],
  [
    "puts scalars in the requested order",
    { finalizers: ["a", "b", "c"] },
    { "$setElementOrder/finalizers": ["c", "a"] },
    { finalizers: ["b", "c", "a"] },
  ],
  [
    "replaces a list",
    { containers: [{ name: "a" }] },
    { containers: [{ $patch: "replace" }, { name: "z", env: [{ name: "x", $patch: "delete" }] }] },
    { containers: [{ name: "z", env: [] }] },
  ],
  [
    "replaces lists without a strategy",
    { tolerations: [{ key: "a" }] },
    { tolerations: [{ key: "b" }] },
    { tolerations: [{ key: "b" }] },
  ],
  [
    "merges scalars as a set",
    { finalizers: ["one", "two"] },
    { finalizers: ["three", "one"] },
    { finalizers: ["three", "one", "two"] },
  ],
  [
    "deletes scalars",
    { finalizers: ["one", "two"] },
    { "$deleteFromPrimitiveList/finalizers": ["one"] },
    { finalizers: ["two"] },
  ],
  ["replaces a map", { labels: { a: "1" } }, { labels: { $patch: "replace", c: "3" } }, { labels: { c: "3" } }],
  ["empties a map", { labels: { a: "1" } }, { labels: { $patch: "delete" } }, { labels: {} }],
  ["merges a map", { labels: { a: "1", c: "3" } }, { labels: { d: "4", c: null, e: null } }, { labels: { a: "1", d: "4" } }],
  ["replaces a map whose strategy is to", { source: { a: 1 } }, { source: { b: 2 } }, { source: { b: 2 } }],
  [
    "retains keys",
    { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } } },
    { strategy: { $retainKeys: ["type"], type: "Recreate" } },
    { strategy: { type: "Recreate" } },
  ],
  [
    "retains keys of an item",
    { volumes: [{ name: "v", emptyDir: {} }] },
    { volumes: [{ $retainKeys: ["name", "secret"], name: "v", secret: { secretName: "s" } }] },
    { volumes: [{ name: "v", secret: { secretName: "s" } }] },
  ],
  [
    "drops directives and nulls of new values",
    {},
    { labels: { $retainKeys: ["a"], a: "1", b: null }, other: { $patch: "delete" } },
    { labels: { a: "1" } },
  ],
  [
    "merges by other keys",
    { ports: [{ port: 80 }, { port: 81, name: "b" }] },
    { ports: [{ port: 81, name: "bb" }] },
    { ports: [{ port: 80 }, { port: 81, name: "bb" }] },
  ],
  ["removes a list", { finalizers: ["a"] }, { finalizers: null }, {}],
])("%s", (_, target, patch, expected) => {
  expect(apply(target, patch)).toEqual(expected);
});

test.each<[object, unknown, string]>([
  [
    { containers: [{ name: "a" }] },
    { containers: [{ image: "x" }] },
    "map: map[image:x] does not contain declared merge key: name",
  ],
  [{ containers: [{ name: "a" }] }, { containers: [{ $patch: "delete" }] }, "does not contain declared merge key: name"],
  [{ containers: [{ name: "a" }] }, { containers: [{ name: "a", $patch: "frob" }] }, "unknown patch type: frob in map"],
  [{ labels: {} }, { labels: { $patch: "frob" } }, "unknown patch type: frob in map"],
  [{ labels: {} }, { labels: { $patch: 1 } }, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"],
  [{ strategy: {} }, { strategy: { $retainKeys: ["type"], other: 1 } }, "invalid patch format of retainKeys"],
  [{ strategy: {} }, { strategy: { $retainKeys: "type" } }, "invalid patch format of retainKeys"],
  [{ finalizers: [] }, { "$setElementOrder/finalizers": "a" }, "expected a []interface {}, but received a string"],
  [{ finalizers: ["a"] }, { "$setElementOrder/finalizers": ["a"], finalizers: ["b"] }, "doesn't match $setElementOrder list"],
  [{ finalizers: ["a"] }, { "$deleteFromPrimitiveList/finalizers": "a" }, "invalid patch format of primitive list"],
  [{ keyless: [{ a: 1 }] }, { keyless: [{ a: 2 }] }, "cannot merge lists without merge key for struct"],
  [{ finalizers: [["a"]] }, { finalizers: ["a"] }, "lists of lists are not supported"],
  [{}, [], "a strategic merge patch has to be a JSON object"],
])("rejects an invalid patch (%#)", (target, patch, message) => {
  expect(() => apply(target, patch)).toThrow(message);
});

test.each<[string, object, unknown, number, string]>([
  [
    "an item without its key",
    { containers: [{ name: "a" }] },
    { containers: [{ ports: [1, null], env: { b: true, a: "x" } }] },
    500,
    "",
  ],
  ["an unknown directive", { labels: {} }, { labels: { $patch: "frob" } }, 500, ""],
  ["a directive that maps do not support", { labels: {} }, { labels: { $patch: "merge" } }, 500, ""],
  ["items of several types", { finalizers: ["a"] }, { finalizers: [1] }, 500, ""],
  ["another order", { finalizers: ["a"] }, { "$setElementOrder/finalizers": ["a"], finalizers: ["b"] }, 500, ""],
  ["a directive of a wrong form", { strategy: {} }, { strategy: { $retainKeys: "type" } }, 400, "BadRequest"],
  ["lists of lists", { finalizers: [["a"]] }, { finalizers: ["a"] }, 422, "Invalid"],
])("rejects %s with the code of kube-apiserver", (_, target, patch, code, reason) => {
  let status: Partial<Status> = {};
  try {
    apply(target, patch);
  } catch (error) {
    if (isStatusError(error)) ({ status } = error);
  }
  expect([status.code, status.reason ?? ""]).toEqual([code, reason]);
});

test("formats parts of a patch as Go does", () => {
  const patch = { containers: [{ ports: [1, null], env: { b: true, a: "x" } }] };
  expect(() => apply({ containers: [{ name: "a" }] }, patch)).toThrow(
    "map: map[env:map[a:x b:true] ports:[1 <nil>]] does not contain declared merge key: name",
  );
});

test("shares unchanged parts and returns the target if nothing changes", () => {
  const target = deepFreeze({ labels: { a: "1" }, tolerations: [{ key: "a" }] });
  expect(strategicMergePatch(schema, target, { labels: { a: "1" } })).toBe(target);
  const result = strategicMergePatch(schema, target, { labels: { b: "2" } }) as typeof target;
  expect(result.tolerations).toBe(target.tolerations);
});

test("applies patches without directives idempotently", () => {
  const item = fc.record({ name: fc.constantFrom("a", "b", "c"), image: fc.constantFrom("1", "2") });
  const object = fc.record(
    {
      containers: fc.uniqueArray(item, { selector: ({ name }) => name, maxLength: 3 }),
      finalizers: fc.uniqueArray(fc.constantFrom("x", "y", "z")),
      labels: fc.dictionary(fc.constantFrom("a", "b", "__proto__"), fc.string(), { noNullPrototype: true }),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(object, object, (target, patch) => {
      const once = strategicMergePatch(schema, target, patch);
      expect(strategicMergePatch(schema, once, patch)).toEqual(once);
    }),
  );
});
