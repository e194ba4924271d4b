import { Type, type TSchema } from "typebox";
import { expect, expectTypeOf, test } from "vitest";
import type { Condition } from "./object.ts";
import type { CustomResourceDefinitionObject } from "../kinds/core-objects.ts";
import { defineResource } from "./resource-definition.ts";
import type { ObjectType } from "./resource.ts";
import {
  conditionsSchema,
  durationSchema,
  intOrStringSchema,
  labelSelectorSchema,
  preserveUnknownObjectSchema,
  quantitySchema,
  timeSchema,
} from "../schema/kubernetes-schemas.ts";
import type { Schema } from "../schema/schema.ts";
import { validateStructural } from "../schema/structural.ts";
import { validate } from "../schema/validate.ts";

const Lamp = defineResource({
  group: "example.com",
  version: "v1",
  kind: "Lamp",
  plural: "lamps",
  shortNames: ["lp"],
  description: "A lamp.",
  spec: Type.Object({
    mode: Type.Optional(
      Type.Union([Type.Literal("on"), Type.Literal("off")], { description: "What it does.", default: "off" }),
    ),
    labels: Type.Optional(Type.Record(Type.String(), Type.String())),
    parts: Type.Array(Type.Object({ name: Type.String() }), {
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    }),
  }),
  status: Type.Object({ lit: Type.Optional(Type.Boolean()) }),
  columns: [{ name: "Mode", type: "string", jsonPath: ".spec.mode" }],
  servedVersions: ["v1alpha1"],
});

test("turns unions of literals into enums and records into additionalProperties", () => {
  expect(JSON.parse(JSON.stringify(Lamp.schema.properties?.spec))).toEqual({
    type: "object",
    required: ["parts"],
    properties: {
      mode: { type: "string", enum: ["on", "off"], description: "What it does.", default: "off" },
      labels: { type: "object", additionalProperties: { type: "string" } },
      parts: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        items: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
      },
    },
  });
});

test("serves every version in the CustomResourceDefinition and stores one", () => {
  expect(Lamp.crd).toMatchObject({
    metadata: { name: "lamps.example.com" },
    spec: {
      scope: "Namespaced",
      names: { plural: "lamps", singular: "lamp", kind: "Lamp", listKind: "LampList", shortNames: ["lp"] },
      versions: [
        { name: "v1", served: true, storage: true, subresources: { status: {} }, additionalPrinterColumns: [{ name: "Mode" }] },
        { name: "v1alpha1", served: true, storage: false },
      ],
    },
  });
});

test("derives the static type from the schemas", () => {
  expectTypeOf<ObjectType<typeof Lamp>["spec"]["mode"]>().toEqualTypeOf<"on" | "off" | undefined>();
  expectTypeOf<NonNullable<ObjectType<typeof Lamp>["status"]>["lit"]>().toEqualTypeOf<boolean | undefined>();
});

function specOf(spec: TSchema): Schema | undefined {
  return defineResource({ group: "g.io", version: "v1", kind: "K", plural: "ks", description: "", spec }).schema.properties
    ?.spec;
}

test.each<[string, TSchema, Schema]>([
  ["a literal", Type.Literal("a"), { type: "string", enum: ["a"] }],
  ["a number literal", Type.Literal(3), { type: "integer", enum: [3] }],
  ["an enum", Type.Enum(["a", "b"]), { type: "string", enum: ["a", "b"] }],
  ["a union with null", Type.Union([Type.String(), Type.Null()]), { type: "string", nullable: true }],
  [
    "a union of literals with null",
    Type.Union([Type.Literal("a"), Type.Literal("b"), Type.Null()]),
    { type: "string", enum: ["a", "b", null], nullable: true },
  ],
  ["a union of integer and string", Type.Union([Type.Integer(), Type.String()]), { "x-kubernetes-int-or-string": true }],
  ["unknown", Type.Unknown(), { "x-kubernetes-preserve-unknown-fields": true }],
  ["a closed object", Type.Object({}, { additionalProperties: false }), { type: "object" }],
  ["an exclusive bound", Type.Number({ exclusiveMinimum: 0 }), { type: "number", minimum: 0, exclusiveMinimum: true }],
  [
    "unique items",
    Type.Array(Type.String(), { uniqueItems: true }),
    { type: "array", items: { type: "string" }, "x-kubernetes-list-type": "set" },
  ],
  [
    "an intersection",
    Type.Intersect([Type.Object({ a: Type.String() }), Type.Object({ b: Type.Optional(Type.String()) })]),
    { type: "object", properties: { a: { type: "string" }, b: { type: "string" } }, required: ["a"] },
  ],
  ["an unsafe schema", Type.Unsafe<string>({ type: "string", format: "date" }), { type: "string", format: "date" }],
  [
    "value validation next to properties",
    Type.Object(
      { a: Type.Optional(Type.String()), b: Type.Optional(Type.String()) },
      { oneOf: [{ required: ["a"] }, { required: ["b"] }] },
    ),
    {
      type: "object",
      properties: { a: { type: "string" }, b: { type: "string" } },
      oneOf: [{ required: ["a"] }, { required: ["b"] }],
    },
  ],
])("%s becomes structural", (_, type, expected) => {
  expect(specOf(Type.Object({ x: type }))?.properties?.x).toEqual(expected);
});

test.each<[string, TSchema, string]>([
  ["a tuple", Type.Tuple([Type.String()]), "schema K.spec.x: a tuple is not structural"],
  [
    "a union of objects",
    Type.Union([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })]),
    "schema K.spec.x: a union of different types",
  ],
  [
    "keys by pattern",
    Type.Record(Type.String({ pattern: "^a" }), Type.String()),
    "schema K.spec.x: keys restricted by a pattern (^a)",
  ],
  ["a reference", Type.Ref("Other"), 'schema K.spec.x: keyword "$ref" is not part'],
  ["null alone", Type.Null(), "schema K.spec.x: Type.Null() is only allowed in a union"],
  ["a default of the wrong type", Type.Integer({ default: "a" }), "properties[spec].properties[x].default: Invalid value"],
])("rejects %s with its path", (_, type, message) => {
  expect(() => specOf(Type.Object({ x: type }))).toThrow(message);
});

test("defaults a spec without required fields to an empty object", () => {
  expect(specOf(Type.Object({ a: Type.Optional(Type.String()) }))).toMatchObject({ default: {} });
  expect(Lamp.schema.required).toEqual(["spec"]);
});

test("provides structural schemas of common types with their static types", () => {
  const Kind = defineResource({
    group: "g.io",
    version: "v1",
    kind: "K",
    plural: "ks",
    description: "",
    spec: Type.Object({
      memory: quantitySchema({ description: "How much." }),
      timeout: Type.Optional(durationSchema({ default: "30s" })),
      port: Type.Optional(intOrStringSchema()),
      at: Type.Optional(timeSchema()),
      selector: Type.Optional(labelSelectorSchema()),
      free: Type.Optional(preserveUnknownObjectSchema()),
    }),
    status: Type.Object({ conditions: Type.Optional(conditionsSchema()) }),
  });
  type Spec = ObjectType<typeof Kind>["spec"];
  expectTypeOf<Spec["memory"]>().toEqualTypeOf<string | number>();
  expectTypeOf<Spec["timeout"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<NonNullable<ObjectType<typeof Kind>["status"]>["conditions"]>().toEqualTypeOf<Condition[] | undefined>();
  const object = { spec: { memory: "1Gi", timeout: "1m30s", port: 80, at: "2026-01-01T00:00:00Z", free: { a: 1 } } };
  expect(validate(Kind.schema, object)).toEqual([]);
  expect(validate(Kind.schema, { spec: { memory: "much", timeout: "soon" } }).map((cause) => cause.field)).toEqual([
    "spec.memory",
    "spec.timeout",
    "spec.timeout",
  ]);
});

test("leaves compiling patterns and CEL rules to the server", () => {
  const kind = { group: "g.io", version: "v1", kind: "K", plural: "ks", description: "" };
  const faultsOf = ({ crd }: { readonly crd: CustomResourceDefinitionObject }): (string | undefined)[] =>
    validateStructural(crd.spec.versions[0]?.schema?.openAPIV3Schema as Schema).map(({ field }) => field);
  const withRule = { spec: Type.Object({ a: Type.Integer() }), validations: [{ rule: "self.spec.a >" }] };
  expect(faultsOf(defineResource({ ...kind, ...withRule }))).toEqual([".x-kubernetes-validations[0].rule"]);
  const withPattern = { spec: Type.Object({ b: Type.String({ pattern: "(", default: "x" }) }) };
  expect(faultsOf(defineResource({ ...kind, ...withPattern }))).toContain(".properties[spec].properties[b].pattern");
});
