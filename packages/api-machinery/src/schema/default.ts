import { draft, setOwn } from "../objects/json.ts";
import type { Schema } from "./schema.ts";

const maxDepth = 256;

/**
 * Sets the defaults of a structural schema in `value`, in place, as kube-apiserver does for custom resources: in every object
 * that exists, absent properties with a default and `null` properties that are not nullable. Defaults are applied to defaults
 * as well. A `null` that is neither nullable nor defaulted is removed, unless `keepsNulls` (default false) is set, as for
 * applied configurations, which are invalid with it.
 *
 * **Guarantees**: defaults are copied; a second run changes nothing.
 */
export function applyDefaults(
  schema: Schema,
  value: unknown,
  { keepsNulls = false }: { readonly keepsNulls?: boolean } = {},
): void {
  fill(schema, value, keepsNulls, 0);
}

function fill(schema: Schema, value: unknown, keepsNulls: boolean, depth: number): void {
  if (typeof value !== "object" || value === null || depth > maxDepth) return;
  if (Array.isArray(value)) {
    const { items } = schema;
    if (!items) return;
    for (let index = 0; index < value.length; index++) {
      if (value[index] === null && items.nullable !== true && items.default !== undefined) value[index] = draft(items.default);
      fill(items, value[index], keepsNulls, depth + 1);
    }
    return;
  }
  const object = value as Record<string, unknown>;
  const { properties, additionalProperties } = schema;
  if (properties) {
    for (const key of defaultedKeys(properties)) {
      if (Object.hasOwn(object, key) && object[key] !== undefined && object[key] !== null) continue;
      const property = properties[key];
      if (property === undefined || (object[key] === null && Object.hasOwn(object, key) && property.nullable === true))
        continue;
      setOwn(object, key, draft(property.default));
    }
  }
  for (const key of Object.keys(object)) {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (!child) continue;
    if (object[key] === null && !allowsNull(child)) {
      if (child.default === undefined) {
        if (!keepsNulls) delete object[key];
      } else setOwn(object, key, draft(child.default));
    }
    fill(child, object[key], keepsNulls, depth + 1);
  }
}

/**
 * Reports whether {@link applyDefaults} would change `value`. Copies nothing: most stored objects received their defaults
 * when they were written.
 */
export function lacksDefaults(schema: Schema, value: unknown): boolean {
  return hasDefaults(schema) && lacks(schema, value, 0);
}

function lacks(schema: Schema, value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null || depth > maxDepth) return false;
  if (Array.isArray(value)) {
    const { items } = schema;
    if (!items || !hasDefaults(items)) return false;
    const isFilled = items.nullable !== true && items.default !== undefined;
    return value.some((item) => (item === null ? isFilled : lacks(items, item, depth + 1)));
  }
  const object = value as Record<string, unknown>;
  const { properties, additionalProperties } = schema;
  if (properties && defaultedKeys(properties).some((key) => !Object.hasOwn(object, key) || object[key] === undefined))
    return true;
  return Object.keys(object).some((key) => {
    const own = properties && Object.hasOwn(properties, key) ? properties[key] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (!child) return false;
    return object[key] === null ? !allowsNull(child) : hasDefaults(child) && lacks(child, object[key], depth + 1);
  });
}

const withDefaults = new WeakMap<Schema, boolean>();

/** Reports whether a schema has a default at any level. For schemas of custom kinds only, which are finite. */
export function hasDefaults(schema: Schema): boolean {
  const known = withDefaults.get(schema);
  if (known !== undefined) return known;
  const { items, properties = {}, additionalProperties } = schema;
  const children = [...Object.values(properties), ...(items ? [items] : [])];
  if (typeof additionalProperties === "object") children.push(additionalProperties);
  const found = schema.default !== undefined || children.some(hasDefaults);
  withDefaults.set(schema, found);
  return found;
}

const allowsNull = (schema: Schema): boolean => schema.nullable === true;

const cache = new WeakMap<object, readonly string[]>();

/** Names of the properties with a default, cached per schema. */
function defaultedKeys(properties: NonNullable<Schema["properties"]>): readonly string[] {
  let keys = cache.get(properties);
  if (!keys) {
    keys = Object.keys(properties).filter((key) => properties[key]?.default !== undefined);
    cache.set(properties, keys);
  }
  return keys;
}
