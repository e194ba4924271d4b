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
 * Schemas for common fields of custom resources, each with its description. Import them from `@keelson/api-machinery/fields`;
 * the names are short.
 */

/** Bounds and default of a number. */
export interface NumberOptions {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
}

/** One of several strings. */
export function choice<const T extends string>(
  values: readonly T[],
  description: string,
  options: {
    readonly default?: T;
    readonly "x-kubernetes-validations"?: readonly { readonly rule: string; readonly message: string }[];
  } = {},
): TUnsafe<T> {
  return typedSchema({ type: "string", enum: [...values], description, ...options });
}

/** A map from string to string. */
export function stringMap(description: string): TUnsafe<Record<string, string>> {
  return typedSchema({ type: "object", additionalProperties: { type: "string" }, description });
}

/** A map with arbitrary values. */
export function anyMap(description: string): TUnsafe<Record<string, JsonValue>> {
  return typedSchema({
    type: "object",
    description,
    additionalProperties: { "x-kubernetes-preserve-unknown-fields": true },
  });
}

/** An arbitrary JSON object. `T` is its static type. */
export function anyObject<T = Record<string, unknown>>(description: string): TUnsafe<T> {
  return preserveUnknownObjectSchema({ description }) as object as TUnsafe<T>;
}

/** A non-negative Go duration: `1h30m`, `500ms`, `0s`. Parse it with `parseDuration`. */
export function duration(description: string, options: { readonly default?: string } = {}): TUnsafe<string> {
  return typedSchema({
    type: "string",
    description: `${description} A duration: one or more numbers with units (ms, s, m, h), such as 1m30s.`,
    pattern: "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    ...options,
  });
}

/** A Kubernetes quantity: `500m`, `2`, `64Mi`. Parse it with `parseQuantity`. */
export function quantity(description: string): TUnsafe<string | number> {
  return quantitySchema({ description });
}

/** An RFC 3339 time. */
export function time(description: string): TUnsafe<string> {
  return timeSchema({ description });
}

/** A 32-bit integer. */
export function int32(description: string, options: NumberOptions = {}): TUnsafe<number> {
  return typedSchema({ type: "integer", format: "int32", maximum: 2 ** 31 - 1, description, ...options });
}

/** A 64-bit integer. */
export function int64(description: string, options: NumberOptions = {}): TUnsafe<number> {
  return typedSchema({ type: "integer", format: "int64", description, ...options });
}

/** The name of a part that becomes part of object names: a DNS label of at most `maxLength` characters (default 63). */
export function partName(description: string, maxLength = 63): TUnsafe<string> {
  return typedSchema({
    type: "string",
    description,
    minLength: 1,
    maxLength,
    pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
  });
}

/** Options for a list keyed by `key`. Keys are unique, and different field managers can own different elements. */
export function listMap(key: string, description: string): TSchemaOptions {
  return { description, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] };
}

/** The standard conditions of a status (meta/v1 Condition), keyed by type. */
export function conditions(description: string): TUnsafe<Condition[]> {
  return conditionsSchema({ description });
}
