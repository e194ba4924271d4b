import type { JsonValue } from "@keelson/api-machinery";
import { type TSchemaOptions, Type } from "typebox";

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
  return Type.Unsafe<T>({ type: "string", enum: [...values], description, ...options });
}

/** A map from strings to strings. */
export function stringMap(description: string) {
  return Type.Unsafe<Record<string, string>>({ type: "object", additionalProperties: { type: "string" }, description });
}

/** A span of time as Go writes it, never negative: `1h30m`, `500ms`, `0s`. See `parseDurationMs`. */
export function duration(description: string, options: { readonly default?: string } = {}) {
  return Type.String({
    description: `${description} A span of time: a number with a unit (ms, s, m, h), or several in a row, such as 1m30s.`,
    pattern: "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    ...options,
  });
}

/** An amount as Kubernetes writes it: `500m`, `2`, `64Mi`. See `parseQuantity`. */
export function quantity(description: string) {
  return Type.Unsafe<string | number>({
    "x-kubernetes-int-or-string": true,
    anyOf: [{ type: "integer" }, { type: "string" }],
    pattern:
      "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
    description,
  });
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
export function int64(description: string) {
  return Type.Integer({ format: "int64", description });
}

/** Options that make a list one keyed by `key`, whose keys are unique and whose elements several writers may own. */
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

/** The name of a component or group within its parent: becomes part of objects' names. */
export function partName(description: string) {
  return Type.String({ description, minLength: 1, maxLength: 40, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" });
}

/** A map whose values are not looked into here. */
export function anyMap(description: string) {
  return Type.Unsafe<Record<string, JsonValue>>({
    type: "object",
    description,
    additionalProperties: { "x-kubernetes-preserve-unknown-fields": true },
  });
}
