import { isJsonObject } from "../objects/json.ts";
import type { Schema } from "./schema.ts";

/** Returns the map keys of an item as JSON, with defaults for absent ones; `undefined` if it has none. */
export function identityOf(schema: Schema, item: unknown, keys: readonly string[]): string | undefined {
  if (!isJsonObject(item)) return undefined;
  let text = "";
  for (const key of keys) {
    const value = Object.hasOwn(item, key) ? item[key] : schema.items?.properties?.[key]?.default;
    if (value !== undefined) text += `${text === "" ? "{" : ","}${JSON.stringify(key)}:${canonical(value)}`;
  }
  return text === "" ? undefined : `${text}}`;
}

/** Returns a lookup of old items by map keys; `undefined` for lists of other types, which cannot be correlated. */
export function correlateItems(schema: Schema, old: unknown): ((item: unknown) => unknown) | undefined {
  const keys = schema["x-kubernetes-list-map-keys"];
  if (schema["x-kubernetes-list-type"] !== "map" || !keys || !Array.isArray(old)) return undefined;
  const byKey = new Map<string | undefined, unknown>();
  for (const item of old) byKey.set(identityOf(schema, item, keys), item);
  byKey.delete(undefined);
  return (item) => byKey.get(identityOf(schema, item, keys));
}

/** Serializes a JSON value with sorted keys, so that equal values have equal texts. */
export function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  return JSON.stringify(value, (_, inner: unknown) =>
    isJsonObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
