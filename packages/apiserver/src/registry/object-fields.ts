import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";

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

/** The mutable JSON object at a path; undefined if absent. */
export function objectAt(value: unknown, ...path: readonly (string | number)[]): JsonObject | undefined {
  const found = valueAt(value, ...path);
  return isJsonObject(found) ? found : undefined;
}

/** Sets a field of an object without a static type; `undefined` removes it. */
export function setField(object: object, name: string, value: unknown): void {
  if (value === undefined) delete (object as Record<string, unknown>)[name];
  else setOwn(object as Record<string, unknown>, name, value);
}

/** The JSON object in the `name` field, created if absent. */
export function ensureMap(object: object, name: string): JsonObject {
  const found = valueAt(object, name);
  if (isJsonObject(found)) return found;
  const made: JsonObject = {};
  setField(object, name, made);
  return made;
}

/** Copies a field of `old` into `object`, or removes it if `old` does not have it. */
export function keepField(object: object, old: object, name: string): void {
  const kept = valueAt(old, name);
  setField(object, name, kept === undefined ? undefined : structuredClone(kept));
}
