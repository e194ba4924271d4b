import { expect, test } from "vitest";
import { parseJsonPath } from "./json-path.ts";

const object = {
  metadata: { name: "x", labels: { "a.b/c": "label" } },
  spec: { replicas: 3, "a.b": "dotted", list: [10, 20, 30, 40] },
  status: {
    conditions: [
      { type: "Ready", status: "True", weight: 1 },
      { type: "Failed", status: "False", weight: 5 },
    ],
  },
};

test.each<[string, unknown[]]>([
  [".metadata.name", ["x"]],
  ["{.metadata.name}", ["x"]],
  ["$.metadata.name", ["x"]],
  ["metadata.name", ["x"]],
  [".spec['a.b']", ["dotted"]],
  ['.spec["a.b"]', ["dotted"]],
  [".spec.a\\.b", ["dotted"]],
  [".metadata.labels.a\\.b/c", ["label"]],
  ['.status.conditions[?(@.type=="Ready")].status', ["True"]],
  [".status.conditions[?( @.type == 'Failed' )].status", ["False"]],
  [".status.conditions[?(@.weight>2)].type", ["Failed"]],
  [".status.conditions[?(@.type!='Ready')].type", ["Failed"]],
  [".status.conditions[?(@.weight)].type", ["Ready", "Failed"]],
  [".status.conditions[*].type", ["Ready", "Failed"]],
  [".status.conditions[0].type", ["Ready"]],
  [".status.conditions[-1].type", ["Failed"]],
  [".status.conditions[7].type", []],
  [".spec.list[1:3]", [20, 30]],
  [".spec.list[:]", [10, 20, 30, 40]],
  [".spec.list[-2:]", [30, 40]],
  [".spec.list[0:4:2]", [10, 30]],
  [".spec.list[0,2]", [10, 30]],
  [".spec['replicas','a.b']", [3, "dotted"]],
  ["..type", ["Ready", "Failed"]],
  [".absent.field", []],
  [".metadata.constructor", []],
  [".spec.*", [3, "dotted", [10, 20, 30, 40]]],
  ["{.}", [object]],
])("%s", (path, expected) => {
  expect(parseJsonPath(path)(object)).toEqual(expected);
});

test.each([".a[", ".a[?(@.b==]", ".a[x]", ".a b", ".a..", ".a['b]", ".a[?(@.b=='c']", ".a[1:2:0]", ".a}"])(
  "rejects the path %j with the offset",
  (path) => {
    expect(() => parseJsonPath(path)).toThrow(/^JSONPath ".*": .* at \d+$/);
  },
);

test("stops a path that selects too many values", () => {
  const rows = Array.from({ length: 400 }, () => Array.from({ length: 400 }, () => 0));
  expect(() => parseJsonPath("[*][*]")(rows)).toThrow(RangeError);
});
