import type { TSchemaOptions, TUnsafe } from "typebox";
import type { JsonValue } from "../objects/json.ts";
import type { Condition } from "../objects/object.ts";
import {
  conditionsSchema,
  preserveUnknownObjectSchema,
  quantitySchema,
  timeSchema,
  typedSchema,
} from "./kubernetes-schemas.ts";

/*
 * The shapes that fields of custom resources have besides plain strings and lists, each with its description: what a
 * `defineResource` is written with. Imported as `@keelson/api-machinery/fields`, since the names are short.
 */

/** Bounds and default of a number. */
export interface NumberOptions {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
}

/** A string out of a list. */
export function choice<const T extends string>(
  values: readonly T[],
  description: string,
  options: { readonly default?: T } = {},
): TUnsafe<T> {
  return typedSchema({ type: "string", enum: [...values], description, ...options });
}

/** A map from strings to strings. */
export function stringMap(description: string): TUnsafe<Record<string, string>> {
  return typedSchema({ type: "object", additionalProperties: { type: "string" }, description });
}

/** A map whose values are not looked into. */
export function anyMap(description: string): TUnsafe<Record<string, JsonValue>> {
  return typedSchema({
    type: "object",
    description,
    additionalProperties: { "x-kubernetes-preserve-unknown-fields": true },
  });
}

/** A JSON object of any shape, kept as it is. `T` is what its reader takes it for. */
export function anyObject<T = Record<string, unknown>>(description: string): TUnsafe<T> {
  return preserveUnknownObjectSchema({ description }) as object as TUnsafe<T>;
}

/** A span of time as Go writes it, never negative: `1h30m`, `500ms`, `0s`. Read it with `parseDuration`. */
export function duration(description: string, options: { readonly default?: string } = {}): TUnsafe<string> {
  return typedSchema({
    type: "string",
    description: `${description} A span of time: a number with a unit (ms, s, m, h), or several in a row, such as 1m30s.`,
    pattern: "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    ...options,
  });
}

/** An amount as Kubernetes writes it: `500m`, `2`, `64Mi`. Read it with `parseQuantity`. */
export function quantity(description: string): TUnsafe<string | number> {
  return quantitySchema({ description });
}

/** A moment, RFC 3339. */
export function time(description: string): TUnsafe<string> {
  return timeSchema({ description });
}

/** A whole number of 32 bits. */
export function int32(description: string, options: NumberOptions = {}): TUnsafe<number> {
  return typedSchema({ type: "integer", format: "int32", maximum: 2 ** 31 - 1, description, ...options });
}

/** A whole number of 64 bits. */
export function int64(description: string, options: NumberOptions = {}): TUnsafe<number> {
  return typedSchema({ type: "integer", format: "int64", description, ...options });
}

/** The name of a part within its parent, which becomes part of objects' names: a DNS label of at most `maxLength` (63) characters. */
export function partName(description: string, maxLength = 63): TUnsafe<string> {
  return typedSchema({
    type: "string",
    description,
    minLength: 1,
    maxLength,
    pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
  });
}

/** Options that make a list one keyed by `key`, whose keys are unique and whose elements several writers may own. */
export function listMap(key: string, description: string): TSchemaOptions {
  return { description, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] };
}

/** The standard conditions of a status (meta/v1 Condition), keyed by type. */
export function conditions(description: string): TUnsafe<Condition[]> {
  return conditionsSchema({ description });
}
