import { describe, expect, it } from "vitest";
import { customSchema } from "./custom-schema.ts";

const objectFields = { apiVersion: { type: "string" }, kind: { type: "string" }, metadata: { type: "object" } };
const v2 = { version: "v2", objectFields } as const;
const v3 = { version: "v3", objectFields } as const;

describe("the published schema of a custom kind", () => {
  it("does not require nullable fields in OpenAPI 2", () => {
    const properties = { a: { type: "string", nullable: true }, b: { type: "string" } } as const;
    const schema = { type: "object", required: ["a", "b"], properties } as const;
    expect(customSchema(schema, v2)).toEqual({ type: "object", required: ["b"], properties: { a: {}, b: { type: "string" } } });
    expect(customSchema({ ...schema, required: ["a"] }, v2)).not.toHaveProperty("required");
    expect(customSchema(schema, v3)).toEqual(schema);
  });

  it("has no defaults in OpenAPI 2", () => {
    const schema = { type: "object", properties: { a: { type: "integer", default: 3 } } } as const;
    expect(customSchema(schema, v2)).toEqual({ type: "object", properties: { a: { type: "integer" } } });
    expect(customSchema(schema, v3)).toEqual(schema);
  });

  it("leaves objects and lists that keep unknown fields untyped in OpenAPI 2", () => {
    const open = { "x-kubernetes-preserve-unknown-fields": true } as const;
    expect(customSchema({ type: "object", properties: { a: { type: "string" } }, ...open }, v2)).toEqual(open);
    expect(customSchema({ type: "array", items: { type: "string" }, ...open }, v2)).toEqual(open);
    expect(customSchema({ type: "object", ...open }, v3)).toEqual({ type: "object", ...open });
  });

  it("keeps validation rules", () => {
    const rules = { type: "object", "x-kubernetes-validations": [{ rule: "true" }] } as const;
    expect(customSchema(rules, v2)).toEqual(rules);
    expect(customSchema(rules, v3)).toEqual(rules);
  });

  it("spells out the types of an int-or-string in OpenAPI 3", () => {
    const schema = { "x-kubernetes-int-or-string": true } as const;
    expect(customSchema({ type: "array", items: schema }, v3)["items"]).toEqual({
      ...schema,
      anyOf: [{ type: "integer" }, { type: "string" }],
    });
    expect(customSchema(schema, v2)).toEqual(schema);
  });

  it("gives an embedded object the fields of an object", () => {
    const embedded = { type: "object", required: ["kind"], "x-kubernetes-embedded-resource": true } as const;
    const expected = { ...embedded, required: ["kind", "apiVersion"], properties: objectFields };
    expect(customSchema(embedded, v2)).toEqual(expected);
    expect(customSchema(embedded, v3)).toEqual(expected);
  });

  it("leaves an embedded object that keeps unknown fields open in OpenAPI 2", () => {
    const extensions = { "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } as const;
    const embedded = { type: "object", ...extensions } as const;
    expect(customSchema(embedded, v2)).toEqual(extensions);
    expect(customSchema(embedded, v3)).toEqual({ ...embedded, properties: objectFields, required: ["kind", "apiVersion"] });
  });

  it("keeps a field named __proto__", () => {
    const properties = Object.fromEntries([["__proto__", { type: "string" }]]) as Record<string, { type: "string" }>;
    const published = customSchema({ type: "object", properties }, v2)["properties"];
    expect(Object.keys(Object(published))).toEqual(["__proto__"]);
  });
});
