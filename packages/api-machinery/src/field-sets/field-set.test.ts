import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deepFreeze } from "../objects/json.ts";
import {
  difference,
  differenceWithSubtrees,
  emptySet,
  type FieldSet,
  fieldSet,
  hasPath,
  includes,
  intersection,
  pathsOf,
  setsEqual,
  union,
} from "./field-set.ts";
import { formatFieldsV1, formatFieldsV1InSteps, maxFieldDepth, parseFieldsV1 } from "./fields-v1.ts";
import { comparePathElements, describePath, keyElement, parsePathElement, valueElement } from "./path-element.ts";

const element = fc.oneof(
  fc.constantFrom("f:a", "f:b", "f:__proto__", "f:.", "f:"),
  fc.string().map((name) => `f:${name}`),
  fc.oneof(fc.string(), fc.integer(), fc.boolean()).map(valueElement),
  fc.oneof(fc.string(), fc.integer()).map((value) => keyElement(["a", "name"], [value, "x"])),
  fc.nat(20).map((index) => `i:${index}`),
);
const set = fc.array(fc.array(element, { minLength: 1, maxLength: 4 }), { maxLength: 12 }).map((paths) => fieldSet(...paths));

function names(value: FieldSet): string[] {
  return pathsOf(value).map((path) => path.join("\u0000"));
}

describe("field sets", () => {
  test("behave as sets of paths", () => {
    fc.assert(
      fc.property(set, set, (left, right) => {
        const [l, r] = [new Set(names(left)), new Set(names(right))];
        const sorted = (paths: Iterable<string>) => [...paths].sort();
        expect(sorted(names(union(left, right)))).toEqual(sorted(new Set([...l, ...r])));
        expect(sorted(names(intersection(left, right)))).toEqual(sorted([...l].filter((path) => r.has(path))));
        expect(sorted(names(difference(left, right)))).toEqual(sorted([...l].filter((path) => !r.has(path))));
        const isBelow = (path: string) => [...r].some((other) => path === other || path.startsWith(`${other}\u0000`));
        expect(sorted(names(differenceWithSubtrees(left, right)))).toEqual(sorted([...l].filter((path) => !isBelow(path))));
        expect(includes(left, right)).toBe([...r].every((path) => l.has(path)));
        expect(setsEqual(left, right)).toBe(l.size === r.size && includes(left, right));
        for (const path of pathsOf(right)) expect(hasPath(left, path)).toBe(l.has(path.join("\u0000")));
      }),
    );
  });

  test("round-trip through FieldsV1 and JSON", () => {
    fc.assert(
      fc.property(set, (value) => {
        const text = JSON.stringify(formatFieldsV1(value));
        const parsed = parseFieldsV1(deepFreeze(JSON.parse(text)));
        expect(setsEqual(parsed, value)).toBe(true);
        expect(JSON.stringify(formatFieldsV1(fieldSet(...pathsOf(parsed))))).toBe(text);
      }),
    );
  });

  test("format a level before its elements, in one step and in several, as Kubernetes does", () => {
    const value = fieldSet(["f:a"], ["f:a", "f:z"], ["f:a", 'k:{"name":"x"}'], ["f:b"]);
    const text = String.raw`{"f:a":{".":{},"f:z":{},"k:{\"name\":\"x\"}":{}},"f:b":{}}`;
    expect(JSON.stringify(formatFieldsV1(value))).toBe(text);
    const large = Array.from({ length: 300 }, (_, index) => ["f:a", `f:z${index}`]);
    const inSteps = formatFieldsV1InSteps(fieldSet(["f:a"], ...large));
    let step = inSteps.next();
    while (step.done !== true) step = inSteps.next();
    expect(JSON.stringify(step.value)).toMatch(/^\{"f:a":\{"\.":\{\},"f:z0":/);
  });

  test("are cached by stored FieldsV1", () => {
    const fields = deepFreeze({ "f:spec": { "f:a": {} } });
    expect(parseFieldsV1(fields)).toBe(parseFieldsV1(fields));
    expect(formatFieldsV1(parseFieldsV1(fields))).toBe(fields);
    const open = { "f:a": {} } as Record<string, object>;
    parseFieldsV1(open);
    open["f:b"] = {};
    expect(names(parseFieldsV1(open))).toEqual(["f:a", "f:b"]);
  });
});

describe("FieldsV1", () => {
  test("is shared by equal sets and frozen", () => {
    const sample = () => fieldSet(["f:spec", "f:a"], ["f:spec", "f:b"]);
    const fields = formatFieldsV1(sample());
    expect(formatFieldsV1(sample())).toBe(fields);
    expect(Object.isFrozen(fields["f:spec"])).toBe(true);
    expect(parseFieldsV1(fields)).toBe(parseFieldsV1(formatFieldsV1(sample())));
    // After a thousand other sets it is created anew, and equal.
    for (let index = 0; index < 1_000; index++) formatFieldsV1(fieldSet([`f:x${index}`]));
    expect(formatFieldsV1(sample())).not.toBe(fields);
    expect(formatFieldsV1(sample())).toEqual(fields);
  });

  test("skips unknown kinds of elements and accepts any spelling of a key", () => {
    const fields = JSON.parse('{"x:new":{},"k:{ \\"b\\":1, \\"a\\":\\"\\\\u0078\\"}":{".":{},"f:c":{}}}');
    expect(formatFieldsV1(parseFieldsV1(fields))).toEqual({ 'k:{"a":"x","b":1}': { ".": {}, "f:c": {} } });
  });

  test("escapes what the API server escapes", () => {
    expect(keyElement(["name"], ["a<b&c"])).toBe('k:{"name":"a\\u003cb\\u0026c"}');
    expect(parsePathElement('k:{"name":"a<b"}')).toBe('k:{"name":"a\\u003cb"}');
  });

  test.each([[[]], ["x"], [{ "f:a": 1 }], [{ a: {} }], [{ "k:[]": {} }], [{ "v:": {} }], [{ "i:x": {} }]])(
    "rejects %j",
    (fields) => {
      expect(() => parseFieldsV1(fields)).toThrow(SyntaxError);
    },
  );

  test("rejects excessive nesting", () => {
    let fields: Record<string, object> = {};
    for (let depth = 0; depth < maxFieldDepth + 2; depth++) fields = { "f:a": fields };
    expect(() => parseFieldsV1(fields)).toThrow(/deeper than/);
  });

  test("of an empty object is the empty set", () => {
    for (const fields of [undefined, null, {}]) expect(setsEqual(parseFieldsV1(fields), emptySet)).toBe(true);
  });
});

describe("path elements", () => {
  test("are ordered by kind: fields, keys, values, indexes", () => {
    const ordered = [
      "f:a",
      "f:\uffee",
      "f:😀",
      'k:{"name":"a"}',
      'k:{"name":"b"}',
      'k:{"port":9}',
      'k:{"port":10}',
      "v:2",
      "v:10",
      'v:"a"',
      "v:false",
      "v:true",
      "i:2",
      "i:10",
    ];
    expect([...ordered].reverse().sort(comparePathElements)).toEqual(ordered);
  });

  test("have a total order", () => {
    fc.assert(
      fc.property(element, element, element, (a, b, c) => {
        expect(Math.sign(comparePathElements(a, b))).toBe(-Math.sign(comparePathElements(b, a)) + 0);
        const inOrder = comparePathElements(a, b) <= 0 && comparePathElements(b, c) <= 0;
        expect(!inOrder || comparePathElements(a, c) <= 0).toBe(true);
      }),
    );
  });

  test("are formatted as paths in messages", () => {
    expect(describePath(["f:spec", 'k:{"port":1,"protocol":"TCP"}', "f:x", 'v:"a"', "i:3"])).toBe(
      '.spec[port=1,protocol="TCP"].x[="a"][3]',
    );
  });
});

test("a large set is formatted like a small one, in several steps", () => {
  const names = Array.from({ length: 12_000 }, (_, index) => `f:${index.toString(36)}`);
  const large = fieldSet(["f:data"], ["f:spec", "f:a"]);
  const items = new Map(names.map((name) => [name, { owned: true, below: undefined }]));
  const set = union(large, new Map([["f:data", { owned: true, below: items }]]));
  let steps = 0;
  const formatting = formatFieldsV1InSteps(set);
  let step = formatting.next();
  for (; step.done !== true; step = formatting.next()) steps += 1;
  expect(steps).toBeGreaterThan(3);
  expect(JSON.stringify(step.value)).toBe(
    `{"f:data":{".":{},${[...names]
      .sort()
      .map((name) => `${JSON.stringify(name)}:{}`)
      .join(",")}},"f:spec":{"f:a":{}}}`,
  );
  expect(setsEqual(parseFieldsV1(step.value), set)).toBe(true);
});
