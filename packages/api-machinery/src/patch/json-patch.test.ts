import fc from "fast-check";
import { expect, test } from "vitest";
import { deepFreeze } from "../objects/json.ts";
import { jsonPatch, jsonPatchInSteps } from "./json-patch.ts";

const document = deepFreeze({ data: { a: "1", b: "2" }, list: [1, 2, 3], "a/b": { "c~d": 1 } });

test.each<[string, unknown[] | null, unknown]>([
  ["adds a member", [{ op: "add", path: "/data/c", value: null }], { ...document, data: { a: "1", b: "2", c: null } }],
  ["adds over a member", [{ op: "add", path: "/data/a", value: 9 }], { ...document, data: { a: 9, b: "2" } }],
  ["inserts into a list", [{ op: "add", path: "/list/1", value: 9 }], { ...document, list: [1, 9, 2, 3] }],
  ["appends to a list", [{ op: "add", path: "/list/-", value: 9 }], { ...document, list: [1, 2, 3, 9] }],
  ["adds at a list's end by index", [{ op: "add", path: "/list/3", value: 9 }], { ...document, list: [1, 2, 3, 9] }],
  ["removes from a list by negative index", [{ op: "remove", path: "/list/-1" }], { ...document, list: [1, 2] }],
  ["replaces in a list", [{ op: "replace", path: "/list/0", value: 9 }], { ...document, list: [9, 2, 3] }],
  ["reads escapes", [{ op: "replace", path: "/a~1b/c~0d", value: 2 }], { ...document, "a/b": { "c~d": 2 } }],
  ["moves", [{ op: "move", from: "/data/a", path: "/data/c" }], { ...document, data: { b: "2", c: "1" } }],
  ["copies", [{ op: "copy", from: "/list", path: "/data/a" }], { ...document, data: { a: [1, 2, 3], b: "2" } }],
  ["tests", [{ op: "test", path: "/list", value: [1, 2, 3] }], document],
  ["takes null for nothing in a test", [{ op: "test", path: "/nothing", value: null }], document],
  ["replaces the whole", [{ op: "replace", path: "", value: { a: 1 } }], { a: 1 }],
  ["does not replace the whole with a scalar", [{ op: "replace", path: "", value: 1 }], document],
  ["does nothing", [], document],
  ["takes null for no operations", null, document],
  ["takes a missing value for null", [{ op: "add", path: "/x" }], { ...document, x: null }],
  ["replaces a missing key", [{ op: "replace", path: "/x", value: 1 }], { ...document, x: 1 }],
  ["copies null from a missing key", [{ op: "copy", from: "/data/z", path: "/x" }], { ...document, x: null }],
  ["ignores what precedes the first slash", [{ op: "add", path: "data/x", value: 1 }], { ...document, x: 1 }],
  ["reads indexes with leading zeros", [{ op: "replace", path: "/list/01", value: 9 }], { ...document, list: [1, 9, 3] }],
])("%s", (_, operations, expected) => {
  expect(jsonPatch(document, deepFreeze(operations))).toEqual(expected);
});

test.each<[unknown, number, string]>([
  [
    { op: "remove", path: "/data/a" },
    400,
    "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
  ],
  [["x"], 400, "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"],
  [[{ op: 5 }], 400, "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"],
  [[null], 422, "Unexpected kind"],
  [[{ op: "add", path: "", value: {} }], 422, "missing value"],
  [[{ op: "test", path: "/none/x", value: null }], 422, "missing value"],
  [[{ op: "test", path: "/list/9", value: null }], 422, "invalid index"],
  [[{ op: "test", path: "/data/a", value: "9" }], 422, "testing value /data/a failed: test failed"],
  [[{ op: "remove", path: "/data/zzz" }], 422, "remove operation does not apply: doc is missing key: /data/zzz: missing value"],
  [
    [{ op: "add", path: "/none/x", value: 1 }],
    422,
    'add operation does not apply: doc is missing path: "/none/x": missing value',
  ],
  [[{ op: "add", path: "/list/17", value: 1 }], 422, "Unable to access invalid index: 17: invalid index referenced"],
  [[{ op: "replace", path: "/list/-", value: 1 }], 422, "invalid index"],
  [[{ op: "replace", path: "/none/zzz", value: 1 }], 422, "doc is missing path"],
  [[{ op: "add", path: "/data/a/b", value: 1 }], 422, "doc is missing path"],
  [[{ op: "add", path: "data", value: 1 }], 422, "is not a JSON pointer"],
  [[{ op: "frob", path: "/x" }], 422, "Unexpected kind: frob"],
  [[{ op: "move", from: "/data", path: "/data/x" }], 422, "cannot be moved into itself"],
  [[{ op: "copy", path: "/data/x" }], 422, "operation missing from field"],
  [[{ op: "add", value: 1 }], 422, "operation missing path field"],
  [
    Array.from({ length: 10_001 }, () => ({ op: "test", path: "", value: null })),
    413,
    "The allowed maximum operations in a JSON patch is 10000",
  ],
])("rejects operations that cannot be applied (%#)", (operations, code, message) => {
  expect(() => jsonPatch(document, operations)).toThrow(
    expect.objectContaining({ code, message: expect.stringContaining(message) as unknown }),
  );
});

test("shares unchanged parts and leaves the target unchanged", () => {
  const result = jsonPatch(document, [{ op: "add", path: "/data/c", value: 1 }]) as typeof document;
  expect(result.list).toBe(document.list);
  expect(document.data).toEqual({ a: "1", b: "2" });
});

test("makes copies independent of their source", () => {
  const result = jsonPatch({ a: { x: 1 } }, [
    { op: "add", path: "/a/y", value: 1 },
    { op: "copy", from: "/a", path: "/b" },
    { op: "replace", path: "/a/x", value: 2 },
  ]);
  expect(result).toEqual({ a: { x: 2, y: 1 }, b: { x: 1, y: 1 } });
});

test("does not change values of the patch", () => {
  const value = deepFreeze({ n: {} });
  const operations = [
    { op: "add", path: "/a", value },
    { op: "add", path: "/a/n/x", value: 1 },
  ];
  expect(jsonPatch({}, operations)).toEqual({ a: { n: { x: 1 } } });
});

test("rejects copies that keep doubling a document", () => {
  const operations = Array.from({ length: 10_000 }, (_, index) => ({ op: "copy", from: "/a", path: `/a/k${index}` }));
  expect(() => jsonPatch({ a: { b: "x".repeat(100) } }, operations)).toThrow("exceeding the limit");
});

test("applies ten thousand operations to a long list in linear time", () => {
  // Copying the list for each operation would exceed the test's timeout.
  const operations = Array.from({ length: 10_000 }, (_, index) => ({ op: "add", path: "/list/-", value: index }));
  const result = jsonPatch({ list: Array.from({ length: 1_000_000 }, () => 0) }, operations) as { list: unknown[] };
  expect(result.list).toHaveLength(1_010_000);
});

test("treats names of the prototype as ordinary members", () => {
  const result = jsonPatch({}, [{ op: "add", path: "/__proto__", value: { polluted: true } }]) as object;
  expect(Object.hasOwn(result, "__proto__")).toBe(true);
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  expect(() => jsonPatch({}, [{ op: "add", path: "/constructor/x", value: 1 }])).toThrow("doc is missing path");
});

test("removes what it added", () => {
  const key = fc.string({ maxLength: 4 });
  fc.assert(
    fc.property(fc.dictionary(key, fc.jsonValue()), key, fc.jsonValue(), (target, name, value) => {
      fc.pre(!Object.hasOwn(target, name));
      const path = `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      const added = jsonPatch(target, [{ op: "add", path, value }]);
      expect(
        jsonPatch(added, [
          { op: "test", path, value },
          { op: "remove", path },
        ]),
      ).toEqual(target);
    }),
  );
});

/** The number of steps of a patch. */
function stepsOf(target: unknown, operations: unknown[]): number {
  let steps = 1;
  for (const patching = jsonPatchInSteps(target, operations); patching.next().done !== true; ) steps++;
  return steps;
}

const repeated = (count: number, operation: (index: number) => object): object[] =>
  Array.from({ length: count }, (_, index) => operation(index));
const long = deepFreeze({ list: Array.from({ length: 39_000 }, () => "x") });

test.each<[string, unknown, object[]]>([
  ["moves in a long list", long, repeated(2_000, () => ({ op: "move", from: "/list/0", path: "/list/38998" }))],
  ["removals from a long list", long, repeated(10_000, () => ({ op: "remove", path: "/list/0" }))],
  ["deep paths", {}, repeated(6_000, (index) => ({ op: "add", path: `/x${"/y".repeat(index % 250)}`, value: {} }))],
  ["copies", { a: "x".repeat(1_000) }, repeated(2_900, (index) => ({ op: "copy", from: "/a", path: `/b${index}` }))],
  ["tests of large values", long, repeated(100, () => ({ op: "test", path: "/list", value: long.list }))],
])("takes several steps for %s", (_, target, operations) => {
  expect(stepsOf(target, operations)).toBeGreaterThan(4);
});

test("takes one step for an ordinary patch", () => {
  expect(
    stepsOf(
      { data: {} },
      repeated(100, (index) => ({ op: "add", path: `/data/k${index}`, value: "v" })),
    ),
  ).toBe(1);
});

test("limits the number of values that a patch copies into itself", () => {
  const operations = repeated(100, (index) => ({ op: "copy", from: "/x", path: `/x/y${index}` }));
  expect(() => jsonPatch({ x: {} }, operations)).toThrow("the copies have more than 80000 values");
});

test("rejects a document that moves nest more deeply than a request could", () => {
  const path = "/a".repeat(200);
  const nested = (levels: number): unknown => {
    let value: unknown = {};
    for (let level = 0; level < levels; level++) value = { a: value };
    return value;
  };
  const target = { data: nested(200), other: nested(200) };
  const tooDeep = /would be nested more than 256 levels/;
  expect(() => jsonPatch(target, [{ op: "move", from: "/other", path: `/data${path}/b` }])).toThrow(tooDeep);
  expect(jsonPatch(target, [{ op: "move", from: "/other", path: "/data/b" }])).toMatchObject({ data: { b: { a: {} } } });
});
