import fc from "fast-check";
import { expect, test } from "vitest";
import { deepFreeze } from "../objects/json.ts";
import { applyDefaults } from "./default.ts";
import { isPruned, prune, unknownFieldMessages } from "./prune.ts";
import type { Schema } from "./schema.ts";

const schema: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        n: { type: "integer", default: 5 },
        list: {
          type: "array",
          items: { type: "object", properties: { a: { type: "string" }, d: { type: "integer", default: 1 } } },
        },
        map: { type: "object", additionalProperties: { type: "object", properties: { q: { type: "string" } } } },
        free: {
          type: "object",
          "x-kubernetes-preserve-unknown-fields": true,
          properties: { strict: { type: "object", properties: {} } },
        },
        template: { type: "object", "x-kubernetes-embedded-resource": true, properties: { spec: { type: "object" } } },
        filled: { type: "object", default: {}, properties: { z: { type: "string", default: "zz" } } },
      },
    },
  },
};

test("drops unknown fields and reports their paths", () => {
  const value = deepFreeze({
    spec: {
      n: 1,
      foo: 1,
      list: [{ a: "x" }, { a: "y", bar: { deep: 1 } }],
      map: { k: { q: "1", r: 2 } },
      free: { any: { thing: 1 }, strict: { gone: 1 } },
      template: { apiVersion: "v1", kind: "Pod", metadata: { labels: {} }, spec: {}, extra: 1 },
    },
    top: true,
  });
  const result = prune<unknown>(schema, value);
  expect(result.value).toEqual({
    spec: {
      n: 1,
      list: [{ a: "x" }, { a: "y" }],
      map: { k: { q: "1" } },
      free: { any: { thing: 1 }, strict: {} },
      template: { apiVersion: "v1", kind: "Pod", metadata: { labels: {} }, spec: {} },
    },
  });
  expect(result.unknown).toEqual([
    "spec.foo",
    "spec.list[1].bar",
    "spec.map.k.r",
    "spec.free.strict.gone",
    "spec.template.extra",
    "top",
  ]);
  expect(unknownFieldMessages(["spec.foo"])).toEqual(['unknown field "spec.foo"']);
});

test("returns a value without unknown fields itself and shares unchanged parts", () => {
  const value = { spec: { n: 1, list: [{ a: "x" }] } };
  expect(prune(schema, value).value).toBe(value);
  const other = { spec: { list: [{ a: "x" }], foo: 1 } };
  expect(prune<{ spec: { list: unknown } }>(schema, other).value.spec.list).toBe(other.spec.list);
});

test("treats names of the prototype as unknown fields", () => {
  const result = prune<object>(schema, JSON.parse('{"spec": {"__proto__": {"polluted": 1}, "n": 1}, "constructor": 1}'));
  expect(result.value).toEqual({ spec: { n: 1 } });
  expect(result.unknown).toEqual(["spec.__proto__", "constructor"]);
  const map = prune<object>(
    { type: "object", additionalProperties: { type: "object" } },
    JSON.parse('{"__proto__": {"x": 1}}'),
  );
  expect(JSON.stringify(map.value)).toBe('{"__proto__":{}}');
});

test("sets defaults in existing objects and in defaulted ones", () => {
  const value: Record<string, unknown> = { spec: { list: [{ a: "x" }, { d: 2 }], n: null } };
  applyDefaults(schema, value);
  expect(value).toEqual({ spec: { n: 5, list: [{ a: "x", d: 1 }, { d: 2 }], filled: { z: "zz" } } });
  const empty = {};
  applyDefaults(schema, empty);
  expect(empty).toEqual({});
});

test("copies a default each time", () => {
  const one = { spec: {} as { filled?: { z?: string } } };
  const two = { spec: {} as { filled?: { z?: string } } };
  applyDefaults(schema, one);
  applyDefaults(schema, two);
  if (one.spec.filled) one.spec.filled.z = "changed";
  expect(two.spec.filled).toEqual({ z: "zz" });
  expect(schema.properties?.spec?.properties?.filled?.default).toEqual({});
});

test("keeps nullable nulls and removes others without a default", () => {
  const value = { a: null, b: null, c: null, list: [null] };
  applyDefaults(
    {
      type: "object",
      properties: {
        a: { type: "string", nullable: true, default: "x" },
        b: { type: "string" },
        c: { "x-kubernetes-preserve-unknown-fields": true },
        list: { type: "array", items: { type: "string", default: "d" } },
      },
    },
    value,
  );
  expect(value).toEqual({ a: null, list: ["d"] });
});

test("drops the fields of objects among values of any kind", () => {
  const result = prune({ type: "object", additionalProperties: true }, { a: 1, b: { c: { d: 1 } }, e: [{ f: 1 }] });
  expect(result).toEqual({ value: { a: 1, b: {}, e: [{}] }, unknown: ["b.c", "e[0].f"] });
});

test("prunes and defaults idempotently", () => {
  fc.assert(
    fc.property(
      fc.record({ spec: fc.dictionary(fc.constantFrom("n", "list", "map", "free", "filled", "x"), fc.jsonValue()) }),
      (value) => {
        const pruned = structuredClone(prune(schema, value).value);
        expect(isPruned(schema, pruned)).toBe(true);
        applyDefaults(schema, pruned);
        const once = structuredClone(pruned);
        applyDefaults(schema, pruned);
        expect(pruned).toEqual(once);
      },
    ),
  );
});
