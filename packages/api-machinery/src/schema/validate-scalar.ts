import { invalidCause, tooLongCause, typeInvalidCause } from "../protocol/field-causes.ts";
import type { StatusCause } from "../protocol/status.ts";
import { hasFormat, isInFormatRange } from "./formats.ts";
import { compilePattern } from "./pattern.ts";
import type { Schema } from "./schema.ts";

/** Checks length, pattern and format of a string. */
export function checkString(schema: Schema, value: string, path: string, causes: StatusCause[]): void {
  const { minLength, maxLength, pattern, format } = schema;
  if (maxLength !== undefined && value.length > maxLength && lengthOf(value) > maxLength)
    causes.push(tooLongCause(path, maxLength));
  if (minLength !== undefined && lengthOf(value) < minLength) {
    causes.push(invalidCause(path, value, `${path} in body should be at least ${minLength} chars long`));
  }
  if (pattern !== undefined && !matches(pattern, value)) {
    causes.push(invalidCause(path, value, `${path} in body should match '${pattern}'`));
  }
  if (format !== undefined && !hasFormat(format, value)) {
    causes.push(typeInvalidCause(path, value, `${path} in body must be of type ${format}: ${JSON.stringify(value)}`));
  }
}

/** Counts code points, not UTF-16 units, as Go does. */
function lengthOf(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length - 1; at++) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code < 0xdc00) length--;
  }
  return length;
}

function matches(pattern: string, value: string): boolean {
  try {
    return compilePattern(pattern).test(value);
  } catch {
    // The structural check rejects invalid patterns. One that arrived in another way matches nothing.
    return false;
  }
}

/** Checks range, divisor and format of a number. */
export function checkNumber(schema: Schema, value: number, path: string, causes: StatusCause[]): void {
  const { minimum, maximum, multipleOf, format } = schema;
  const exclusiveMinimum = schema.exclusiveMinimum === true;
  const exclusiveMaximum = schema.exclusiveMaximum === true;
  if (minimum !== undefined && (value < minimum || (exclusiveMinimum && value === minimum))) {
    causes.push(
      invalidCause(path, value, `${path} in body should be greater than ${exclusiveMinimum ? "" : "or equal to "}${minimum}`),
    );
  }
  if (maximum !== undefined && (value > maximum || (exclusiveMaximum && value === maximum))) {
    causes.push(
      invalidCause(path, value, `${path} in body should be less than ${exclusiveMaximum ? "" : "or equal to "}${maximum}`),
    );
  }
  if (multipleOf !== undefined && multipleOf > 0) {
    const quotient = value / multipleOf;
    if (Math.abs(quotient - Math.round(quotient)) > 1e-9 * Math.max(1, Math.abs(quotient))) {
      causes.push(invalidCause(path, value, `${path} in body should be a multiple of ${multipleOf}`));
    }
  }
  if (format !== undefined && Number.isInteger(value) && !isInFormatRange(format, value)) {
    causes.push(typeInvalidCause(path, value, `${path} in body must be of type ${format}: ${JSON.stringify(value)}`));
  }
}
