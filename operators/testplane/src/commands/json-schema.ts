import { isJsonObject } from "@keelson/api-machinery";
import { IntegrationTest } from "../api/integration-test.ts";
import { LoadTest } from "../api/load-test.ts";
import { group, version } from "../api/names.ts";

type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * A JSON Schema (draft 7, which editors support) of both kinds, in a file or in a List. Unknown fields are mistakes, except in manifests
 * and parameters.
 */
export function testSchema(): JsonSchema {
  const kinds = [IntegrationTest, LoadTest];
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Keelson tests",
    oneOf: [
      ...kinds.map(({ kind }) => ({ $ref: `#/definitions/${kind}` })),
      {
        type: "object",
        required: ["kind", "items"],
        properties: { kind: { const: "List" }, items: { type: "array", items: { $ref: "#" } } },
      },
    ],
    definitions: Object.fromEntries(kinds.map((type) => [type.kind, kindSchema(type)])),
  };
}

function kindSchema({ kind, crd }: typeof IntegrationTest | typeof LoadTest): JsonSchema {
  const schema = crd.spec.versions[0]?.schema?.openAPIV3Schema as JsonSchema | undefined;
  const properties = isJsonObject(schema?.["properties"]) ? schema["properties"] : {};
  return {
    type: "object",
    ...(typeof schema?.["description"] === "string" ? { description: schema["description"] } : {}),
    required: ["apiVersion", "kind", "metadata", "spec"],
    properties: {
      apiVersion: { const: `${group}/${version}` },
      kind: { const: kind },
      metadata: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
      spec: jsonSchemaOf(properties["spec"]),
      status: { type: "object" },
    },
    additionalProperties: false,
  };
}

/** Keywords that draft 7 has too. */
const common = new Set([
  ...["type", "description", "default", "enum", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"],
  ...["uniqueItems", "required", "minProperties", "maxProperties", "multipleOf"],
]);

/** Converts a schema of a CustomResourceDefinition. */
function jsonSchemaOf(schema: unknown): JsonSchema {
  if (!isJsonObject(schema)) return {};
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (common.has(key)) result[key] = value;
    else if (key === "minimum" || key === "maximum") {
      const isExclusive = schema[key === "minimum" ? "exclusiveMinimum" : "exclusiveMaximum"] === true;
      result[isExclusive ? (key === "minimum" ? "exclusiveMinimum" : "exclusiveMaximum") : key] = value;
    } else if (key === "properties" && isJsonObject(value))
      result[key] = Object.fromEntries(Object.entries(value).map(([name, child]) => [name, jsonSchemaOf(child)]));
    else if (key === "items" || key === "not" || (key === "additionalProperties" && isJsonObject(value)))
      result[key] = jsonSchemaOf(value);
    else if (["allOf", "anyOf", "oneOf"].includes(key) && Array.isArray(value)) result[key] = value.map(jsonSchemaOf);
  }
  if (schema["x-kubernetes-int-or-string"] === true) result["type"] = ["integer", "string"];
  const isClosed = "properties" in schema && schema["x-kubernetes-preserve-unknown-fields"] !== true;
  return isClosed && !("additionalProperties" in result) && isWhole(schema)
    ? { ...result, additionalProperties: false }
    : result;
}

/** Whether a schema describes an object, in contrast to a part of `oneOf`. */
const isWhole = (schema: Readonly<Record<string, unknown>>): boolean => schema["type"] === "object";
