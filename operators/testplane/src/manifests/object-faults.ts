import { isJsonObject } from "@keelson/api-machinery";
import { isQuantity } from "@keelson/api-machinery/quantity";
import type { Schema } from "@keelson/api-machinery/schema";
import { validate } from "@keelson/api-machinery/schema-checks";
import { suggestion } from "../functions/closest-name.ts";
import { hasTemplate } from "../templating/template.ts";

/** Names and indexes from an object to one of its values. */
export type Path = readonly (string | number)[];

/** A mistake in an object. */
export interface ObjectFault {
  readonly path: Path;
  /** What is wrong, without the path. */
  readonly message: string;
}

/** A path as errors show it: `spec.containers[0].image`. */
export function pathText(path: Path): string {
  return path.reduce<string>((text, step) => text + (typeof step === "number" ? `[${step}]` : `${text && "."}${step}`), "");
}

const maxDepth = 256;

/**
 * Finds the fields of an object that its kind does not have, and the values that the API server cannot decode. `path` is that of the object.
 * As the decoder does, accepts null for every field, and a number for a quantity. Missing fields are not reported: an apply may leave them out.
 * Texts with an expression can become any value.
 */
export function objectFaults(schema: Schema, value: unknown, path: Path): readonly ObjectFault[] {
  if (value === null || value === undefined || path.length > maxDepth || isExpression(value)) return [];
  if (isJsonObject(value) && isObjectSchema(schema)) return fieldFaults(schema, value, path);
  if (Array.isArray(value) && schema.type === "array") {
    const { items = {} } = schema;
    return value.flatMap((item: unknown, index) => objectFaults(items, item, [...path, index]));
  }
  if (schema.format === "quantity") return quantityFaults(value, path);
  // The decoder skips line breaks in base64.
  const checked = schema.format === "byte" && typeof value === "string" ? value.replaceAll(/[\r\n]/g, "") : value;
  return validate(schema, checked, pathText(path)).map(({ message = "" }) => ({ path, message }));
}

function isExpression(value: unknown): boolean {
  return typeof value === "string" && hasTemplate(value);
}

function isObjectSchema({ type, properties }: Schema): boolean {
  return type === "object" || properties !== undefined;
}

function fieldFaults(schema: Schema, value: Readonly<Record<string, unknown>>, path: Path): readonly ObjectFault[] {
  const { properties = {}, additionalProperties } = schema;
  const keepsUnknown = schema["x-kubernetes-preserve-unknown-fields"] === true || additionalProperties === true;
  return Object.entries(value).flatMap(([name, field]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const child = own ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (child !== undefined) return objectFaults(child, field, [...path, name]);
    if (keepsUnknown || isExpression(name)) return [];
    return [{ path: [...path, name], message: `unknown field${suggestion(name, Object.keys(properties))}` }];
  });
}

function quantityFaults(value: unknown, path: Path): readonly ObjectFault[] {
  if (isQuantity(value)) return [];
  return [{ path, message: `Invalid value: ${JSON.stringify(value)}: must be a quantity such as 500m or 2Gi` }];
}
