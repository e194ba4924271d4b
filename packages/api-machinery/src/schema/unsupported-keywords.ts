import { forbiddenCause, invalidCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import type { SchemaNode } from "./schema-node.ts";

/** Reports keywords of JSON Schema that Kubernetes does not support. */
export function checkUnsupportedKeywords(schema: SchemaNode, path: string, causes: StatusCause[]): void {
  for (const key of ["$ref", "$schema", "id", "definitions", "dependencies", "additionalItems", "patternProperties"]) {
    if (schema[key] === undefined) continue;
    causes.push(forbiddenCause(`${path}.${key}`, `${key} is not supported`));
  }
  if (schema.uniqueItems === true) {
    const detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    causes.push(forbiddenCause(`${path}.uniqueItems`, detail));
  }
  const preserve = schema["x-kubernetes-preserve-unknown-fields"];
  if (preserve !== undefined && preserve !== true) {
    causes.push(invalidCause(`${path}.x-kubernetes-preserve-unknown-fields`, preserve, "must be true or undefined"));
  }
}
