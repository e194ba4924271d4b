import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";
import { listAt, mapAt, objectsAt, textAt, valueAt } from "@keelson/api-machinery/object-fields";

export { listAt, mapAt, objectsAt, textAt, valueAt };

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

/** The JSON object in the field `name`, created if absent. */
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
