import fc from "fast-check";
import { expect, test } from "vitest";
import type { StatusCause } from "../protocol/status.ts";
import type { Schema } from "./schema.ts";
import { validate } from "./validate.ts";

const lines = (causes: readonly StatusCause[]) => causes.map(({ field, reason, message }) => `${field} ${reason}: ${message}`);

function of(property: Schema, value: unknown): string[] {
  return lines(validate({ type: "object", properties: { x: property } }, { x: value }));
}

test.each<[Schema, unknown, string[]]>([
  [{ type: "integer" }, "a", ['x FieldValueTypeInvalid: Invalid value: "string": x in body must be of type integer: "string"']],
  [{ type: "integer" }, null, ['x FieldValueTypeInvalid: Invalid value: "null": x in body must be of type integer: "null"']],
  [{ type: "integer", nullable: true }, null, []],
  [{ type: "number" }, 1, []],
  [{ type: "string", maxLength: 3 }, "abcd", ["x FieldValueTooLong: Too long: may not be more than 3 bytes"]],
  [{ type: "string", maxLength: 2 }, "😀😀", []],
  [{ type: "array", maxItems: 1 }, [1, 2], ["x FieldValueTooMany: Too many: 2: must have at most 1 item"]],
  [
    { type: "integer", enum: [1] },
    "",
    [
      'x FieldValueTypeInvalid: Invalid value: "string": x in body must be of type integer: "string"',
      'x FieldValueNotSupported: Unsupported value: "": supported values: "1"',
    ],
  ],
  [
    { type: "string", format: "date" },
    1,
    ['x FieldValueTypeInvalid: Invalid value: "int64": x in body must be of type date: "int64"'],
  ],
  [
    { type: "string", format: "other" },
    1,
    ['x FieldValueTypeInvalid: Invalid value: "integer": x in body must be of type string: "integer"'],
  ],
  [{ type: "object", maxProperties: 1 }, { a: 1, b: 2 }, ["x FieldValueTooMany: Too many: 2: must have at most 1 item"]],
  [
    { type: "integer", maximum: 5, exclusiveMaximum: true },
    5,
    ["x FieldValueInvalid: Invalid value: 5: x in body should be less than 5"],
  ],
  [
    { type: "integer", format: "int32" },
    2 ** 31,
    ["x FieldValueTypeInvalid: Invalid value: 2147483648: x in body must be of type int32: 2147483648"],
  ],
  [{ type: "number", multipleOf: 0.1 }, 0.3, []],
  [
    { type: "array", items: { type: "integer" } },
    [1, "a"],
    ['x[1] FieldValueTypeInvalid: Invalid value: "string": x[1] in body must be of type integer: "string"'],
  ],
  [{ type: "array", "x-kubernetes-list-type": "set" }, ["a", "b", "a"], ['x[2] FieldValueDuplicate: Duplicate value: "a"']],
  [
    {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["port", "protocol"],
      items: { type: "object", properties: { protocol: { type: "string", default: "TCP" } } },
    },
    [{ port: 1 }, { port: 1, protocol: "UDP" }, { port: 1, protocol: "TCP" }],
    ['x[2] FieldValueDuplicate: Duplicate value: {"port":1,"protocol":"TCP"}'],
  ],
  [
    { type: "array", uniqueItems: true },
    [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ],
    ['x FieldValueInvalid: Invalid value: "array": x in body shouldn\'t contain duplicates'],
  ],
  [
    { "x-kubernetes-int-or-string": true },
    1.5,
    ['x FieldValueTypeInvalid: Invalid value: "number": x in body must be of type integer,string: "number"'],
  ],
  [{ type: "boolean", enum: [true] }, false, ['x FieldValueNotSupported: Unsupported value: false: supported values: "true"']],
  [{ "x-kubernetes-preserve-unknown-fields": true }, null, []],
])("%j rejects %j", (schema, value, expected) => {
  expect(of(schema, value)).toEqual(expected);
});

test.each<[string, string[], string[]]>([
  [
    "date-time",
    ["2026-02-28T23:59:59Z", "2024-02-29T00:00:00.123456+02:00"],
    ["2026-02-29T00:00:00Z", "2026-01-01", "2026-01-01T25:00:00Z"],
  ],
  ["date", ["2026-01-31"], ["2026-01-32", "1.1.2026"]],
  ["duration", ["30s", "1h30m", "3 days"], ["soon", "1x"]],
  ["byte", ["", "eA=="], ["***", "eA="]],
  ["ipv4", ["10.0.0.1"], ["10.0.0", "10.0.0.256", "01.0.0.1"]],
  ["ipv6", ["::1", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1"], ["1::2::3", "::g", "10.0.0.1", ":1"]],
  ["cidr", ["10.0.0.0/8", "fe80::/10"], ["10.0.0.0", "10.0.0.0/33"]],
  ["uri", ["https://example.com/a", "/a/b", "urn:x"], ["not a uri", "a b"]],
  ["hostname", ["a.example.com"], ["-a", "a..b"]],
  ["email", ["a@example.com"], ["a", "a@", "@b"]],
  ["uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123"]],
  ["mac", ["00:1A:2b:3c:4d:5e"], ["00:1A:2b"]],
  ["k8s-short-name", ["a-b"], ["A", "a.b"]],
  ["k8s-long-name", ["a.b"], ["A"]],
  ["hexcolor", ["#fff", "a0b1c2"], ["#ff"]],
  ["isbn", ["0-306-40615-2", "978-0-306-40615-7"], ["0-306-40615-3"]],
  ["something-else", ["whatever"], []],
])("validates strings of the format %s", (format, good, bad) => {
  const faulty = (text: string) => of({ type: "string", format }, text).length > 0;
  expect(good.filter(faulty)).toEqual([]);
  expect(bad.filter((text) => !faulty(text))).toEqual([]);
});

const list: Schema = {
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["name"],
  items: { type: "object", properties: { name: { type: "string" }, n: { type: "integer", maximum: 5 } } },
};
const ratcheted: Schema = { type: "object", properties: { list, n: { type: "integer", maximum: 5 } } };

test("reports faults in the order of kube-apiserver: items, sizes of lists, duplicates; sizes of maps, fields", () => {
  const item = { type: "string", maxLength: 3 } as const;
  const set = { type: "array", "x-kubernetes-list-type": "set", maxItems: 2, items: item } as const;
  const map = { type: "object", maxProperties: 1, additionalProperties: { type: "integer", maximum: 2 } } as const;
  const schema: Schema = { type: "object", properties: { set, map } };
  expect(
    validate(schema, { set: ["aaaa", "a", "a"], map: { a: 3, b: 1 } }).map(({ reason, field }) => [reason, field]),
  ).toEqual([
    ["FieldValueTooLong", "set[0]"],
    ["FieldValueTooMany", "set"],
    ["FieldValueTooMany", "map"],
    ["FieldValueInvalid", "map.a"],
    ["FieldValueDuplicate", "set[2]"],
  ]);
});

test("evaluates rules beside faults other than those of types, required fields and sizes", () => {
  const schema: Schema = {
    type: "object",
    properties: { n: { type: "integer", maximum: 3 }, s: { type: "string", maxLength: 1 } },
    "x-kubernetes-validations": [{ rule: "false" }],
  };
  const rules = ({ path }: { path: string }) => [{ field: path, message: "failed" }];
  expect(validate(schema, { n: 7 }, "spec", { rules }).map(({ field }) => field)).toEqual(["spec.n", "spec"]);
  expect(validate(schema, { n: 7, s: "xx" }, "spec", { rules }).map(({ field }) => field)).toEqual([
    "spec.n",
    "spec.s",
    "<nil>",
  ]);
});

test("ratchets duplicates: rejects none if the old object has any", () => {
  const set = { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } } as const;
  const schema: Schema = { type: "object", properties: { a: set, b: set } };
  const oldValue = { a: ["x", "x"], b: [] };
  const fields = (value: unknown, old?: unknown): unknown[] =>
    validate(schema, value, "", { oldValue: old }).map(({ field }) => field);
  expect(fields({ a: ["y", "x", "x"], b: ["z", "z"] }, oldValue)).toEqual([]);
  expect(fields({ a: ["y", "x", "x"] }, { a: ["x"] })).toEqual(["a[2]"]);
  expect(fields({ a: ["x", "x"] })).toEqual(["a[1]"]);
});

test("ratchets: rejects changed values only", () => {
  const oldValue = {
    n: 9,
    list: [
      { name: "a", n: 9 },
      { name: "b", n: 1 },
    ],
  };
  expect(
    validate(
      ratcheted,
      {
        n: 9,
        list: [
          { name: "b", n: 2 },
          { name: "a", n: 9 },
        ],
      },
      "",
      { oldValue },
    ),
  ).toEqual([]);
  expect(lines(validate(ratcheted, { n: 8, list: [{ name: "b", n: 9 }] }, "", { oldValue }))).toEqual([
    "n FieldValueInvalid: Invalid value: 8: n in body should be less than or equal to 5",
    "list[0].n FieldValueInvalid: Invalid value: 9: list[0].n in body should be less than or equal to 5",
  ]);
});

test("evaluates rules with the correlated old value, and only on otherwise valid values", () => {
  const rule = [{ rule: "true" }];
  const schema: Schema = {
    type: "object",
    properties: {
      list: { ...list, items: { ...list.items, "x-kubernetes-validations": rule } },
      m: { type: "object", additionalProperties: { type: "integer", "x-kubernetes-validations": rule } },
    },
  };
  const asked: unknown[] = [];
  const rules = ({ path, value, oldValue }: { path: string; value: unknown; oldValue: unknown }) => {
    asked.push([path, value, oldValue]);
    return [];
  };
  const oldValue = { list: [{ name: "a", n: 1 }], m: { k: 1 } };
  expect(validate(schema, { list: [{ name: "b" }, { name: "a" }], m: { k: 2, l: 3 } }, "spec", { rules, oldValue })).toEqual(
    [],
  );
  expect(asked).toEqual([
    ["spec.list[0]", { name: "b" }, undefined],
    ["spec.list[1]", { name: "a" }, { name: "a", n: 1 }],
    ["spec.m.k", 2, 1],
    ["spec.m.l", 3, undefined],
  ]);
  asked.length = 0;
  const messages = validate(schema, { list: "x" }, "", { rules }).map(({ field, message }) => `${field}: ${message}`);
  expect(messages[1]).toMatch(
    /^<nil>: Invalid value: null: some validation rules were not checked because the object was invalid/,
  );
  expect(asked).toEqual([]);
});

test("rejects endless nesting with a recursive schema", () => {
  const schema: Schema = {
    type: "object",
    get properties() {
      return { next: schema };
    },
  };
  let value: object = {};
  for (let depth = 0; depth < 5_000; depth++) value = { next: value };
  expect(validate(schema, value)[0]?.message).toContain("nested deeper than 256 levels");
});

test("limits the number of causes", () => {
  const causes = validate(
    { type: "array", items: { type: "integer" } },
    Array.from({ length: 50_000 }, () => "x"),
  );
  expect(causes.length).toBeLessThanOrEqual(1_000);
});

test("ignores names of the prototype", () => {
  const schema: Schema = { type: "object", properties: { a: { type: "string" } }, required: ["constructor"] };
  expect(lines(validate(schema, {}))).toEqual(["constructor FieldValueRequired: Required value"]);
  expect(validate({ type: "object", properties: {} }, JSON.parse('{"__proto__": 1, "toString": 2}'))).toEqual([]);
});

test("validates any value", () => {
  const schema: Schema = {
    type: "object",
    properties: { a: list, b: { type: "string", format: "uri", pattern: "^a+$" }, c: { "x-kubernetes-int-or-string": true } },
    additionalProperties: { type: "object", "x-kubernetes-embedded-resource": true },
    oneOf: [{ required: ["a"] }, { not: { required: ["b"] } }],
  };
  fc.assert(
    fc.property(fc.jsonValue(), fc.dictionary(fc.constantFrom("a", "b", "c", "d"), fc.jsonValue()), (any, object) => {
      expect(Array.isArray(validate(schema, any))).toBe(true);
      expect(Array.isArray(validate(schema, object))).toBe(true);
    }),
  );
});
