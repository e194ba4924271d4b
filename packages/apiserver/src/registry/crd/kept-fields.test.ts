import fc from "fast-check";
import type { Schema } from "@keelson/api-machinery/schema";
import { prune } from "@keelson/api-machinery/server";
import { expect, it } from "vitest";
import { asCrd } from "./crd-spec.ts";
import { keepsFields } from "./kept-fields.ts";

const names = ["a", "b", "c"] as const;

const { schema } = fc.letrec<{ schema: Schema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.constant<Schema>({ type: "string" }),
    fc
      .record(
        {
          type: fc.constant("object" as const),
          properties: fc.dictionary(fc.constantFrom(...names), tie("schema"), { maxKeys: 3 }),
          additionalProperties: fc.oneof(fc.boolean(), tie("schema")),
          "x-kubernetes-preserve-unknown-fields": fc.constant(true as const),
        },
        { requiredKeys: ["type"] },
      )
      .map((value) => value as Schema),
    fc
      .record(
        {
          type: fc.constant("array" as const),
          items: tie("schema"),
          "x-kubernetes-preserve-unknown-fields": fc.constant(true as const),
        },
        { requiredKeys: ["type"] },
      )
      .map((value) => value as Schema),
  ),
}));

const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant("text"),
    fc.dictionary(fc.constantFrom(...names), tie("value"), { maxKeys: 3 }),
    fc.array(tie("value"), { maxLength: 2 }),
  ),
}));

function crdOf(openAPIV3Schema: Schema, storedVersions: readonly string[] = ["v1"], name = "v1") {
  return asCrd({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.example.com" },
    spec: { versions: [{ name, served: true, storage: true, schema: { openAPIV3Schema } }] },
    status: { storedVersions },
  } as never);
}

it("never says that fields are kept if the new schema prunes one that the old one keeps", () => {
  fc.assert(
    fc.property(schema, schema, fc.array(value, { minLength: 5, maxLength: 10 }), (before, after, values) => {
      if (!keepsFields(crdOf(before), crdOf(after))) return;
      for (const each of values) {
        const written = prune(before, each).value;
        expect(prune(after, written).value).toEqual(written);
      }
    }),
    { numRuns: 2_000 },
  );
});

it("keeps the fields of a schema that gains one, at any level", () => {
  const of = (properties: Readonly<Record<string, Schema>>): Schema => ({
    type: "object",
    properties: { spec: { type: "object", properties: { list: { type: "array", items: { type: "object", properties } } } } },
  });
  const [one, two] = [of({ a: { type: "string" } }), of({ a: { type: "string" }, b: { type: "string" } })];
  expect(keepsFields(crdOf(one), crdOf(two))).toBe(true);
  expect(keepsFields(crdOf(two), crdOf(one))).toBe(false);
});

it("does not keep the fields of a version that is served again and has objects", () => {
  const text: Schema = { type: "string" };
  expect(keepsFields(crdOf(text), crdOf(text, ["v1", "v2"], "v2"))).toBe(false);
  expect(keepsFields(crdOf(text), crdOf(text, ["v1"], "v2"))).toBe(true);
});
