import { isJsonObject } from "../objects/json.ts";

/** A part of a schema whose keywords have not been checked yet. */
export type SchemaNode = { readonly [key: string]: unknown };

/** The maximum nesting that the checks follow. */
export const maxSchemaDepth = 256;

/** Returns `value` if it is an object, else an empty schema. */
export function asNode(value: unknown): SchemaNode {
  return isJsonObject(value) ? value : {};
}

/** Returns the members of a map of schemas. */
export function entries(value: unknown): [string, SchemaNode][] {
  return isJsonObject(value) ? Object.entries(value).map(([key, child]) => [key, asNode(child)]) : [];
}

/** Returns `value` if it is a list, else an empty one. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
