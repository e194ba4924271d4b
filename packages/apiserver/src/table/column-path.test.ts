import { describe, expect, it } from "vitest";
import { compileColumnPath, printResult } from "./column-path.ts";

const object = {
  spec: { tags: ["a", "b", "c"], n: 3 },
  metadata: { labels: { "app.kubernetes.io/name": "web", plain: "x" } },
  status: {
    conditions: [
      { type: "Ready", status: "True", n: 1 },
      { type: "Other", status: "False", n: 5 },
    ],
  },
};

describe("a column's path", () => {
  it.each([
    [".spec.n", [3]],
    [".spec.tags[1]", ["b"]],
    [".spec.tags[-1]", ["c"]],
    [".spec.tags[-2:]", ["b", "c"]],
    [".spec.tags[0:1]", ["a"]],
    [".spec.tags[*]", ["a", "b", "c"]],
    [".spec.tags[7]", []],
    [".spec.tags.length", []],
    [".spec.none.deep", []],
    [".metadata.labels.app\\.kubernetes\\.io/name", ["web"]],
    [".metadata.labels['app.kubernetes.io/name']", ["web"]],
    ['.status.conditions[?(@.type=="Ready")].status', ["True"]],
    [".status.conditions[?(@.type=='None')].status", []],
    [".status.conditions[?(@.n > 3)].type", ["Other"]],
    [".status.conditions[?(@.n)].n", [1, 5]],
    [".constructor.name", []],
  ])("%s", (path, values) => {
    expect(compileColumnPath(path)(object)).toEqual(values);
  });

  it.each([".spec[", ".spec[x]", ".a[?(type)]", ".a[?(@.b==)]", ".a b", "spec.a"])(
    "is refused when it is wrong: %s",
    (path) => {
      expect(() => compileColumnPath(path)).toThrow(SyntaxError);
    },
  );

  it("prints texts bare and the rest as JSON", () => {
    expect(["x", 1, true, { a: [1] }].map(printResult)).toEqual(["x", "1", "true", '{"a":[1]}']);
  });
});

it("shows null as Go's templates do", () => {
  expect(printResult(null)).toBe("<no value>");
});
