import { isJsonObject, type JsonObject } from "./json.ts";

/** The value at a path of field names and indexes; undefined if absent. Reads own properties only. */
export function valueAt(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current = value;
  for (const step of path) {
    if (typeof current !== "object" || current === null || !Object.hasOwn(current, step)) return undefined;
    current = (current as Record<string | number, unknown>)[step];
  }
  return current;
}

/** The string at a path; `""` if absent. */
export function textAt(value: unknown, ...path: readonly (string | number)[]): string {
  const found = valueAt(value, ...path);
  return typeof found === "string" ? found : "";
}

/** The list at a path; empty if absent. */
export function listAt(value: unknown, ...path: readonly (string | number)[]): readonly unknown[] {
  const found = valueAt(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The JSON object at a path; empty if absent. */
export function mapAt(value: unknown, ...path: readonly (string | number)[]): Readonly<Record<string, unknown>> {
  const found = valueAt(value, ...path);
  return isJsonObject(found) ? found : {};
}

/** The mutable JSON objects in the list at a path; empty if absent. */
export function objectsAt(value: unknown, ...path: readonly (string | number)[]): readonly JsonObject[] {
  return listAt(value, ...path).filter(isJsonObject);
}
