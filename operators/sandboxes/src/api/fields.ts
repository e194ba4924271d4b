import { type TSchemaOptions, Type } from "typebox";

/* The few shapes that fields of this group have besides plain strings and numbers. */

/** A string out of a list. */
export function choice<const T extends string>(
  values: readonly T[],
  description: string,
  options: { readonly default?: T } = {},
) {
  return Type.Unsafe<T>({ type: "string", enum: [...values], description, ...options });
}

/** A moment, RFC 3339. */
export function time(description: string) {
  return Type.String({ format: "date-time", description });
}

/** A whole number of 32 bits. */
export function int32(
  description: string,
  options: { readonly minimum?: number; readonly maximum?: number; readonly default?: number } = {},
) {
  return Type.Integer({ format: "int32", description, ...options });
}

/** A whole number of 64 bits. */
export function int64(description: string, options: { readonly minimum?: number } = {}) {
  return Type.Integer({ format: "int64", description, ...options });
}

/** Something that this server does not look into. */
export function anyObject<T>(description: string) {
  return Type.Unsafe<T>({ type: "object", "x-kubernetes-preserve-unknown-fields": true, description });
}

/** Options that make a list one keyed by `key`. */
export function listMap(key: string, description: string): TSchemaOptions {
  return { description, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] };
}

/** The standard conditions of a status (meta/v1 Condition), keyed by type. */
export function conditions(description: string) {
  return Type.Array(
    Type.Object({
      type: Type.String({ description: "What is true or not.", minLength: 1, maxLength: 316 }),
      status: choice(["True", "False", "Unknown"], "Whether it is."),
      observedGeneration: Type.Optional(int64("Generation of the object that this was decided for.")),
      lastTransitionTime: time("When status last changed."),
      reason: Type.String({ description: "Why, in one CamelCase word.", minLength: 1, maxLength: 1024 }),
      message: Type.String({ description: "Why, for people.", maxLength: 32768 }),
    }),
    listMap("type", description),
  );
}
