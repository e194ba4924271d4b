import type { Schema } from "../schema/schema.ts";

/** The largest request that the API server reads, which bounds values without their own limits. */
const maxRequestBytes = 3 * 1024 * 1024;

/** How large a value can be, as a CEL expression sees it. */
export interface ValueBounds {
  /** Maximum length of a string, or number of items or entries; 1 for scalars. */
  readonly size: number;
  /** The bounds of items or of the values of entries. */
  element?(): ValueBounds;
  /** The bounds of a property; undefined if it is not declared. */
  property?(name: string): ValueBounds | undefined;
  /** Whether a comprehension visits keys, not items. */
  readonly isMap?: boolean;
}

/** A value of which nothing is known, such as an int-or-string. */
export const unknownBounds: ValueBounds = { size: maxRequestBytes - 2 };
/** A number, a boolean, a time. */
export const scalarBounds: ValueBounds = { size: 1 };

/** The bounds of a schema's values (k8s.io/apiserver's declaration types). */
export function boundsOf(schema: Schema): ValueBounds {
  if (schema["x-kubernetes-int-or-string"] === true) return unknownBounds;
  switch (schema.type) {
    case "string":
      return { size: stringSize(schema) };
    case "array": {
      const items = schema.items ?? {};
      return { size: maxElements(schema) ?? fitting(minBytes(items) + 1), element: () => boundsOf(items) };
    }
    case "object":
      return objectBounds(schema);
    case "boolean":
    case "integer":
    case "number":
      return scalarBounds;
    default:
      return unknownBounds;
  }
}

function objectBounds(schema: Schema): ValueBounds {
  const { additionalProperties, properties } = schema;
  if (typeof additionalProperties === "object") {
    const size = maxElements(schema) ?? fitting(minBytes(additionalProperties) + 6);
    return { size, isMap: true, element: () => boundsOf(additionalProperties) };
  }
  return {
    size: 0,
    property(name) {
      const found = properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;
      return found && boundsOf(found);
    },
  };
}

/** `maxItems` of a list or `maxProperties` of a map; undefined if there is no limit. */
export function maxElements(schema: Schema): number | undefined {
  const limit = schema.type === "array" ? schema.maxItems : schema.maxProperties;
  return limit === undefined ? undefined : Math.max(0, limit);
}

/** How many values of a schema fit in a request. */
export function maxOccurrences(schema: Schema): number {
  return Math.trunc(maxRequestBytes / (minBytes(schema) + 1));
}

function fitting(bytes: number): number {
  return Math.trunc((maxRequestBytes - 2) / bytes);
}

/** The longest text of a format in JSON. */
const formatSizes: Readonly<Record<string, number>> = { duration: 32, date: 10, "date-time": 35 };

function stringSize({ format = "", maxLength, enum: values }: Schema): number {
  if (Object.hasOwn(formatSizes, format)) return formatSizes[format] ?? 0;
  // A character has up to four bytes.
  if (maxLength !== undefined) return Math.max(0, maxLength) * (format === "byte" ? 1 : 4);
  if (format !== "byte" && values !== undefined && values.length > 0) {
    return Math.max(...values.map((value) => String(value).length));
  }
  return maxRequestBytes - 2;
}

/** The fewest bytes of a value in JSON. */
function minBytes(schema: Schema): number {
  if (schema["x-kubernetes-int-or-string"] === true) return 1;
  switch (schema.type) {
    case "boolean":
      return 4;
    case "integer":
    case "number":
      return 1;
    case "string":
      return { duration: 3, date: 12, "date-time": 21 }[schema.format ?? ""] ?? 2;
    case "object":
      return 2 + (schema.required ?? []).reduce((sum, name) => sum + requiredBytes(schema, name), 0);
    default:
      return 2;
  }
}

/** A required property without a default: its name in quotes, a colon, the value and a comma. */
function requiredBytes({ properties = {} }: Schema, name: string): number {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return property === undefined || property.default !== undefined ? 0 : name.length + 4 + minBytes(property);
}
