import { typedSchema } from "@keelson/api-machinery";
import { Type } from "typebox";

/*
 * The few shapes that fields of this group have besides plain strings and numbers, spelled as Kubernetes' structural schemas
 * want them.
 */

/** A string out of a list. */
export function choice<const T extends string>(
  values: readonly T[],
  description: string,
  options: { readonly default?: T } = {},
) {
  return typedSchema<T>({ type: "string", enum: [...values], description, ...options });
}

/** A moment, RFC 3339. */
export function time(description: string) {
  return Type.String({ format: "date-time", description });
}

/** A whole number of 32 bits. */
export function int32(description: string, options: { readonly minimum?: number; readonly default?: number } = {}) {
  return Type.Integer({ format: "int32", maximum: 2 ** 31 - 1, description, ...options });
}

/** A whole number of 64 bits. */
export function int64(description: string) {
  return Type.Integer({ format: "int64", description });
}

/** A map from strings to strings. */
export function stringMap(description: string) {
  return typedSchema<Record<string, string>>({ type: "object", additionalProperties: { type: "string" }, description });
}

/** A JSON object of any shape, kept as it is. */
export function anyObject(description: string) {
  return typedSchema<Record<string, unknown>>({
    type: "object",
    "x-kubernetes-preserve-unknown-fields": true,
    description,
  });
}
