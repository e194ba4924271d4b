import { typeInvalidCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import { isKnownFormat } from "./formats.ts";
import type { Schema } from "./schema.ts";

/**
 * Checks the type of a value. Returns whether its other keywords apply: as in kube-apiserver they do to every value but null, including to one
 * of the wrong type.
 */
export function checkType(schema: Schema, value: unknown, path: string, causes: StatusCause[]): boolean {
  if (value === null || value === undefined) {
    if (schema.nullable !== true && (schema.type !== undefined || schema["x-kubernetes-int-or-string"] === true)) {
      causes.push(wrongType(schema, "null", path));
    }
    return false;
  }
  const type = typeOf(value);
  if (!allowsType(schema, type)) causes.push(wrongType(schema, type, path));
  return true;
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

function allowsType(schema: Schema, type: string): boolean {
  if (schema["x-kubernetes-int-or-string"] === true) return type === "integer" || type === "string";
  return schema.type === undefined || schema.type === type || (schema.type === "number" && type === "integer");
}

function wrongType(schema: Schema, actual: string, path: string): StatusCause {
  const { type, format } = schema;
  const wanted = schema["x-kubernetes-int-or-string"] === true ? "integer,string" : type;
  // kube-apiserver compares a value that is neither text nor a list with the format of a text.
  const isFormatted =
    type === "string" && format !== undefined && isKnownFormat(format) && actual !== "array" && actual !== "null";
  const [expected, found] = isFormatted ? [format, numberFormats[actual] ?? ""] : [wanted, actual];
  return typeInvalidCause(path, found, `${path} in body must be of type ${expected}: ${JSON.stringify(found)}`);
}

const numberFormats: Readonly<Record<string, string>> = { integer: "int64", number: "float64" };
