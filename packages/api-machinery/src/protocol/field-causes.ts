import { quoteText, shorten } from "./quote-text.ts";
import { statusError, type StatusCause, type StatusError } from "./status.ts";

/** The maximum number of causes in an error: an object with thousands of invalid values must not produce a response of megabytes. */
export const maxCauses = 1_000;

/**
 * The causes of the items of a collection, in order. Stops when there are {@link maxCauses}: a body can have tens of thousands of invalid
 * items, and the rest would not be reported.
 */
export function causesOfItems<T>(
  items: Iterable<T>,
  causesOf: (item: T, index: number) => readonly StatusCause[],
): StatusCause[] {
  const causes: StatusCause[] = [];
  let index = 0;
  for (const item of items) {
    for (const cause of causesOf(item, index++)) causes.push(cause);
    if (causes.length >= maxCauses) break;
  }
  return causes;
}

/** The values of `StatusCause.reason` for invalid fields (apimachinery `field.ErrorType`). */
export type FieldReason =
  | "FieldValueDuplicate"
  | "FieldValueForbidden"
  | "FieldValueInvalid"
  | "FieldValueNotFound"
  | "FieldValueNotSupported"
  | "FieldValueRequired"
  | "FieldValueTooLong"
  | "FieldValueTooMany"
  | "FieldValueTypeInvalid"
  | "InternalError";

/** Creates a cause from a complete message. */
export function fieldCause(reason: FieldReason, field: string, message: string): StatusCause {
  return { reason, message, field: shorten(field) };
}

/** `Required value`, with an optional detail. */
export function requiredCause(field: string, detail = ""): StatusCause {
  return fieldCause("FieldValueRequired", field, withDetail("Required value", detail));
}

/** `Invalid value: "x": detail`. */
export function invalidCause(field: string, value: unknown, detail: string): StatusCause {
  return fieldCause("FieldValueInvalid", field, withDetail(`Invalid value: ${printValue(value)}`, detail));
}

/** Like {@link invalidCause}, for a value of the wrong type. */
export function typeInvalidCause(field: string, value: unknown, detail: string): StatusCause {
  return fieldCause("FieldValueTypeInvalid", field, withDetail(`Invalid value: ${printValue(value)}`, detail));
}

/** `Unsupported value: "a": supported values: "b", "c"`. */
export function notSupportedCause(field: string, value: unknown, supported: readonly string[]): StatusCause {
  const detail = supported.length > 0 ? `supported values: ${supported.map(printValue).join(", ")}` : "";
  return fieldCause("FieldValueNotSupported", field, withDetail(`Unsupported value: ${printValue(value)}`, detail));
}

/** `Duplicate value: "a"`. */
export function duplicateCause(field: string, value: unknown): StatusCause {
  return fieldCause("FieldValueDuplicate", field, `Duplicate value: ${printValue(value)}`);
}

/** `Not found: "a": detail`. */
export function notFoundCause(field: string, value: unknown, detail = ""): StatusCause {
  return fieldCause("FieldValueNotFound", field, withDetail(`Not found: ${printValue(value)}`, detail));
}

/** `Forbidden: detail`. */
export function forbiddenCause(field: string, detail: string): StatusCause {
  return fieldCause("FieldValueForbidden", field, withDetail("Forbidden", detail));
}

/** `Too long: may not be more than 3 bytes`. The value is omitted because it is long. */
export function tooLongCause(field: string, maxLength: number): StatusCause {
  return fieldCause("FieldValueTooLong", field, `Too long: may not be more than ${maxLength} bytes`);
}

/** `Too many: 3: must have at most 2 items`. */
export function tooManyCause(field: string, actual: number, max: number): StatusCause {
  return fieldCause(
    "FieldValueTooMany",
    field,
    `Too many: ${actual}: must have at most ${max} ${max === 1 ? "item" : "items"}`,
  );
}

/**
 * Creates the 422 Invalid error for an object: `Widget.example.com "x" is invalid: spec.a: Required value`. Identical causes
 * of a field appear once in the message. Only the first {@link maxCauses} are reported.
 */
export function invalidError(
  type: { readonly group: string; readonly kind: string },
  name: string,
  causes: readonly StatusCause[],
): StatusError {
  const reported = causes.slice(0, maxCauses);
  const lines = new Set(reported.map((cause) => `${cause.field}: ${cause.message}`));
  const list = [...lines].join(", ");
  const qualified = type.group === "" ? type.kind : `${type.kind}.${type.group}`;
  const shown = shorten(name);
  return statusError("Invalid", `${qualified} "${shown}" is invalid: ${lines.size === 1 ? list : `[${list}]`}`, {
    ...(name === "" ? {} : { name: shown }),
    ...(type.group === "" ? {} : { group: type.group }),
    ...(type.kind === "" ? {} : { kind: type.kind }),
    causes: reported,
  });
}

/**
 * Formats a value as in messages of the API: strings quoted, numbers and booleans bare, everything else as JSON, in which Go escapes the
 * characters with a meaning in HTML.
 */
export function printValue(value: unknown): string {
  if (value === undefined) return "null";
  if (typeof value === "string") return quoteText(shorten(value));
  const text = shorten(JSON.stringify(value));
  if (typeof value !== "object") return text;
  return text.replaceAll(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`);
}

/** Returns the path of a field below `path`; the path of the root is `""`. */
export function childPath(path: string, field: string): string {
  return path === "" ? field : `${path}.${field}`;
}

function withDetail(head: string, detail: string): string {
  return detail === "" ? head : `${head}: ${detail}`;
}
