import type { Schema } from "@keelson/api-machinery/schema";
import type { Json, OpenApiVersion } from "./openapi-types.ts";

/** How the schema of a custom kind is published. */
export interface CustomSchemaOptions {
  readonly version: OpenApiVersion;
  /** The schemas of `apiVersion`, `kind` and `metadata`, which embedded objects get. */
  readonly objectFields: Json;
}

/** Converts the schema of a custom kind. Schemas of CRDs are trees, so the recursion terminates. */
export function customSchema(schema: Schema, options: CustomSchemaOptions): Json {
  const result: Json = { ...schema };
  if (schema.properties !== undefined) {
    const properties = Object.entries(schema.properties).map(([name, child]) => [name, customSchema(child, options)]);
    result["properties"] = Object.fromEntries(properties);
  }
  if (schema.items !== undefined) result["items"] = customSchema(schema.items, options);
  const { additionalProperties } = schema;
  if (typeof additionalProperties === "object") result["additionalProperties"] = customSchema(additionalProperties, options);
  if (options.version === "v2") restrictToOpenApi2(result, schema);
  else if (schema["x-kubernetes-int-or-string"] === true && schema.anyOf === undefined && schema.allOf === undefined) {
    result["anyOf"] = [{ type: "integer" }, { type: "string" }];
  }
  if (schema["x-kubernetes-embedded-resource"] === true) embedObject(result, schema, options);
  return result;
}

/** Keywords that OpenAPI 2 does not have, and defaults, which kube-apiserver does not publish there. */
const newKeywords = ["allOf", "anyOf", "default", "oneOf", "not", "nullable"] as const;

/** Removes what OpenAPI 2 does not have, and what would make its clients reject values that the removed keywords allow. */
function restrictToOpenApi2(result: Json, schema: Schema): void {
  for (const keyword of newKeywords) delete result[keyword];
  const allowsUnknown = schema["x-kubernetes-preserve-unknown-fields"] === true;
  const isOpen = schema.nullable === true || allowsUnknown;
  if (isOpen) for (const keyword of ["items", "properties"]) delete result[keyword];
  const isOpenContainer = allowsUnknown && (schema.type === "object" || schema.type === "array");
  if (schema.nullable === true || schema["x-kubernetes-int-or-string"] === true || isOpenContainer) delete result["type"];
  if (!isOpen) omitNullableFromRequired(result, schema);
}

/** Clients that cannot express null treat it as an absent field. */
function omitNullableFromRequired(result: Json, { required, properties }: Schema): void {
  if (required === undefined) return;
  const kept = required.filter((name) => properties?.[name]?.nullable !== true);
  if (kept.length > 0) result["required"] = kept;
  else delete result["required"];
}

/** Clients that use OpenAPI 2 would reject unknown fields next to specified ones. */
function embedObject(result: Json, schema: Schema, { version, objectFields }: CustomSchemaOptions): void {
  if (version === "v2" && schema["x-kubernetes-preserve-unknown-fields"] === true) return;
  result["properties"] = { ...Object(result["properties"]), ...objectFields };
  const required = schema.required ?? [];
  result["required"] = [...required, ...["kind", "apiVersion"].filter((name) => !required.includes(name))];
}
