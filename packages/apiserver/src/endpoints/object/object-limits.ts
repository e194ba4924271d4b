import { type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";

/**
 * Maximum number of values in a body. Objects are validated, tracked and encoded on one thread, so their number of values is limited in
 * addition to their size. The largest CRDs have about 30,000.
 */
export const maxValues = 40_000;

/** Maximum number of values of an object without its managedFields: those of a body with their defaults. */
const maxObjectValues = 2 * maxValues;

/** Maximum number of characters of an object without its managedFields: that of a body in bytes. Patches could exceed it step by step. */
const maxCharacters = 3 * 1024 * 1024;

/** **Errors**: `RequestEntityTooLarge` if an object without its managedFields exceeds a limit. */
export function requireWithinLimits({ metadata, ...rest }: DeepReadonly<KubernetesObject>): void {
  const { managedFields: _, ...others } = metadata;
  const size = { values: 0, characters: 0 };
  measure({ ...rest, metadata: others }, size);
  if (size.values > maxObjectValues) {
    throw statusError("RequestEntityTooLarge", `the object has more than ${maxObjectValues} values`);
  }
  if (size.characters > maxCharacters) {
    throw statusError("RequestEntityTooLarge", `the object has more than ${maxCharacters} characters`);
  }
}

interface Size {
  values: number;
  characters: number;
}

/** Counts a value as a body does: every object and list, and every separator. */
function measure(value: unknown, size: Size): void {
  if (typeof value === "string") size.characters += value.length;
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    size.values += Math.max(1, value.length);
    for (const item of value) measure(item, size);
    return;
  }
  const keys = Object.keys(value);
  size.values += Math.max(1, keys.length);
  for (const key of keys) {
    size.characters += key.length;
    measure((value as Record<string, unknown>)[key], size);
  }
}
