import { describe, expect, test } from "vitest";
import { Comparison } from "./compare.ts";
import { isPlural, removeAt, valuesAt } from "./document-path.ts";
import { normalise } from "./normalise.ts";
import { MissingVariable, substitute } from "./variables.ts";

const compare = (...pairs: readonly (readonly [expected: unknown, actual: unknown])[]): number => {
  const comparison = new Comparison((text) => text.replaceAll("${ns}", "c-ns"));
  return pairs.flatMap(([expected, actual]) => comparison.differences(expected, actual)).length;
};

const uid = (digit: string): string => `${digit.repeat(8)}-0000-4000-8000-000000000000`;

describe("responses match", () => {
  test.each([
    [
      "objects whatever the order of keys",
      [
        { a: 1, b: [2] },
        { b: [2], a: 1 },
      ],
    ],
    ["messages whatever they say", [{ $message: "a" }, { $message: "b" }]],
    ["variables", ["in ${ns}", "in c-ns"]],
    ["times", [{ at: "<time>" }, { at: "2026-01-02T03:04:05Z" }]],
    ["placeholders within text", ["a-<gen:1>/<uid:1>", `a-x7f2k/${uid("a")}`]],
    ["allocated ports, which are numbers", ["<nodeport:1>", 30_001]],
  ] as const)("%s", (_, pair) => {
    expect(compare(pair)).toBe(0);
  });

  test("a numbered placeholder stands for one value, also in keys", () => {
    expect(compare(["<uid:1>", uid("a")], [{ "k:<uid:1>": 1 }, { [`k:${uid("a")}`]: 1 }])).toBe(0);
  });
});

describe("responses differ", () => {
  test.each([
    ["a key that is missing", [{ a: 1 }, {}]],
    ["a key that is left over", [{}, { a: null }]],
    [
      "the order of a list",
      [
        [1, 2],
        [2, 1],
      ],
    ],
    ["null and nothing", [{ a: null }, {}]],
    ["text and number", ["1", 1]],
    ["a time with a fraction", ["<time>", "2026-01-02T03:04:05.1Z"]],
    ["no UUID", ["<uid:1>", "x"]],
  ] as const)("%s", (_, pair) => {
    expect(compare(pair)).toBeGreaterThan(0);
  });

  test("two values for one placeholder, one value for two placeholders, and versions in the wrong order", () => {
    expect(compare(["<uid:1>", uid("a")], ["<uid:1>", uid("b")])).toBe(1);
    expect(compare(["<uid:1>", uid("a")], ["<uid:2>", uid("a")])).toBe(1);
    expect(compare(["<rv:1>", "20"], ["<rv:2>", "9"])).toBe(1);
    expect(compare(["<rv:1>", "9"], ["<rv:2>", "20"])).toBe(0);
  });
});

test("paths select keys, indexes, all elements, and elements by a value", () => {
  const document = {
    a: {
      "b/c": [
        { n: "x", v: 1 },
        { n: "y", v: 2 },
      ],
    },
  };
  expect(valuesAt(document, "/a/b~1c/1/v")).toEqual([2]);
  expect(valuesAt(document, "/a/b~1c/*/v")).toEqual([1, 2]);
  expect(valuesAt(document, "/a/b~1c[n=y]/v")).toEqual([2]);
  expect(valuesAt(document, "/a/none")).toEqual([]);
  expect([isPlural("/a/*"), isPlural("/a/b")]).toEqual([true, false]);
  removeAt(document, "/a/b~1c[n=x]");
  expect(document).toEqual({ a: { "b/c": [{ n: "y", v: 2 }] } });
});

test("variables keep the type of their value if they are the whole string, and become text otherwise", () => {
  const variables = { run: "r", steps: { one: { body: { items: [{ count: 3 }] } } } };
  expect(
    substitute({ "k-${run}": ["${steps.one.body.items.0.count}", "n${steps.one.body.items.0.count}"] }, variables),
  ).toEqual({
    "k-r": [3, "n3"],
  });
  expect(() => substitute("${steps.two.body}", variables)).toThrow(MissingVariable);
});

test("normalisation drops what may differ: managedFields, null times, order of verbs, messages and ages", () => {
  expect(
    normalise({ metadata: { managedFields: [{}], creationTimestamp: null, selfLink: "/x" }, verbs: ["b", "a"] }, false),
  ).toEqual({
    metadata: {},
    verbs: ["a", "b"],
  });
  const causes = [
    { field: "spec.b", reason: "FieldValueInvalid", message: "m" },
    { field: "spec.a[2].b", reason: "FieldValueTypeInvalid", message: "n" },
    { field: "spec.b", reason: "FieldValueInvalid", message: "o" },
  ];
  const status = { kind: "Status", apiVersion: "v1", metadata: {}, message: "m", details: { group: "x.example.com", causes } };
  expect(normalise(status, false)).toEqual({
    kind: "Status",
    apiVersion: "v1",
    $message: "m",
    details: {
      group: "x.example.com",
      causes: [
        { field: "spec.a[2].b", reason: "FieldValueTypeInvalid", $message: "n" },
        { field: "spec.b", reason: "FieldValueInvalid", $message: "m" },
      ],
    },
  });
  const table = {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    columnDefinitions: [{ name: "Age", type: "string", description: "d" }],
    rows: [{ cells: ["3m5s"] }],
  };
  expect(normalise(table, false)).toMatchObject({
    columnDefinitions: [{ name: "Age", type: "string" }],
    rows: [{ cells: ["<age>"] }],
  });
});
