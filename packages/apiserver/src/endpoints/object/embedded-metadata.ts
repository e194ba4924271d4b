import { isJsonObject, setOwn } from "@keelson/api-machinery";
import type { Schema } from "@keelson/api-machinery/schema";
import { badRequest } from "../errors.ts";
import { readMetadata } from "./metadata.ts";

/**
 * Normalizes, in place, the type and metadata of objects embedded in a custom object (`x-kubernetes-embedded-resource`), with the rules
 * for top-level metadata. Unknown metadata fields are dropped and their paths added to `unknown`.
 *
 * **Errors**: `BadRequest` if a field has the wrong type.
 */
export function readEmbedded(schema: Schema, value: unknown, path: string, unknown: string[], depth = 0): void {
  if (typeof value !== "object" || value === null || depth > maxDepth || !hasEmbedded(schema)) return;
  if (Array.isArray(value)) {
    const { items } = schema;
    if (items) for (const [index, item] of value.entries()) readEmbedded(items, item, `${path}[${index}]`, unknown, depth + 1);
    return;
  }
  const object = value as Record<string, unknown>;
  if (schema["x-kubernetes-embedded-resource"] === true) readOne(object, path, unknown);
  const { properties, additionalProperties } = schema;
  for (const key of Object.keys(object)) {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (child) readEmbedded(child, object[key], path === "" ? key : `${path}.${key}`, unknown, depth + 1);
  }
}

const maxDepth = 256;

function readOne(object: Record<string, unknown>, path: string, unknown: string[]): void {
  for (const key of ["apiVersion", "kind"]) {
    if (Object.hasOwn(object, key) && typeof object[key] !== "string") throw badRequest(`${path}.${key} must be a string`);
  }
  if (!Object.hasOwn(object, "metadata")) return;
  if (!isJsonObject(object["metadata"])) throw badRequest(`${path}.metadata must be an object`);
  const known: string[] = [];
  setOwn(object, "metadata", readMetadata(object["metadata"], path, "", known));
  unknown.push(...known.map((name) => `${path}.${name}`));
}

const withEmbedded = new WeakMap<Schema, boolean>();

/** Whether a custom schema contains an embedded object at any depth. Memoized: the schema is immutable. */
function hasEmbedded(schema: Schema): boolean {
  const known = withEmbedded.get(schema);
  if (known !== undefined) return known;
  const { items, properties = {}, additionalProperties } = schema;
  const children = [...Object.values(properties), ...(items ? [items] : [])];
  if (typeof additionalProperties === "object") children.push(additionalProperties);
  const found = schema["x-kubernetes-embedded-resource"] === true || children.some(hasEmbedded);
  withEmbedded.set(schema, found);
  return found;
}
