import { type DeepReadonly, jsonEquals } from "@keelson/api-machinery";
import { compilePattern } from "@keelson/api-machinery/pattern";
import { compareQuantities, isQuantity } from "@keelson/api-machinery/quantity";
import { parseJsonPath } from "@keelson/api-machinery/selectors";
import { textOf } from "../functions/read.ts";

/** Operators of a {@link JsonPathAssertion}. */
export const jsonPathOperators = [
  "Equals",
  "NotEquals",
  "GreaterThan",
  "GreaterThanOrEqual",
  "LessThan",
  "LessThanOrEqual",
  "Matches",
  "NotMatches",
  "Exists",
  "Absent",
] as const;

/** Operator of a {@link JsonPathAssertion}. */
export type JsonPathOperator = (typeof jsonPathOperators)[number];

/** A comparison of the values that a JSONPath selects. */
export interface JsonPathAssertion {
  path: string;
  /** Default: Equals with a value, otherwise Exists. */
  operator?: JsonPathOperator;
  value?: unknown;
  /** Compares the number of selected values instead of the values. */
  count?: boolean;
}

/** Result of a {@link JsonPathAssertion}. */
export interface JsonPathResult {
  readonly passed: boolean;
  readonly expected: string;
  readonly actual: string;
}

type Assertion = DeepReadonly<JsonPathAssertion>;

const operatorOf = ({ operator, value }: Assertion): JsonPathOperator =>
  operator ?? (value === undefined ? "Exists" : "Equals");

/** Compares what a path selects in `root`. With several values, all must satisfy the comparison, and at least one must exist. */
export function checkJsonPath(assertion: Assertion, root: unknown): JsonPathResult {
  const operator = operatorOf(assertion);
  const selected = parseJsonPath(completePath(assertion.path))(root).filter((value) => value !== undefined);
  const found = selected.filter((value) => value !== null);
  // A null alongside values is a value that differs from them.
  const compared = found.length > 0 && operator !== "Exists" && operator !== "Absent" ? selected : found;
  const values: readonly unknown[] = assertion.count ? [found.length] : compared;
  const expected = `${operator}${assertion.value === undefined ? "" : ` ${textOf(assertion.value)}`}`;
  const actual = values.length === 0 ? "absent" : values.map(textOf).join(", ");
  const passed =
    operator === "Exists"
      ? values.length > 0
      : operator === "Absent"
        ? values.length === 0
        : values.length > 0 && values.every((value) => holds(operator, value, assertion.value));
  return { passed, expected, actual };
}

function holds(operator: Exclude<JsonPathOperator, "Exists" | "Absent">, actual: unknown, expected: unknown): boolean {
  switch (operator) {
    case "Equals":
      return jsonEquals(actual, expected);
    case "NotEquals":
      return !jsonEquals(actual, expected);
    case "Matches":
      return compilePattern(String(expected)).test(textOf(actual));
    case "NotMatches":
      return !compilePattern(String(expected)).test(textOf(actual));
    default:
      return isOrdered(operator, compareValues(actual, expected));
  }
}

function isOrdered(operator: JsonPathOperator, order: number | undefined): boolean {
  if (order === undefined) return false;
  if (order === 0) return operator === "GreaterThanOrEqual" || operator === "LessThanOrEqual";
  return order > 0 ? operator.startsWith("Greater") : operator.startsWith("Less");
}

/** Orders numbers and quantities by value, and other strings as text. Undefined if the values cannot be compared. */
function compareValues(a: unknown, b: unknown): number | undefined {
  if (isQuantity(a) && isQuantity(b)) return compareQuantities(a, b);
  if (typeof a === "string" && typeof b === "string") return a === b ? 0 : a > b ? 1 : -1;
  return undefined;
}

/** `a.b`, `.a.b`, `$.a.b` and `{.a.b}` are the same path. */
const completePath = (path: string): string => (/^[.${[]/.test(path) ? path : `.${path}`);

/** Why an assertion is invalid, starting with the field; `undefined` if it is valid. */
export function validateJsonPath(assertion: Assertion): string | undefined {
  const operator = operatorOf(assertion);
  try {
    parseJsonPath(completePath(assertion.path));
  } catch (error) {
    return `path: ${error instanceof Error ? error.message : String(error)}`;
  }
  const needsValue = operator !== "Exists" && operator !== "Absent";
  if (needsValue && assertion.value === undefined) return `value: required by the operator ${operator}`;
  if (!needsValue && assertion.value !== undefined) return `value: must not be set with the operator ${operator}`;
  if (!operator.endsWith("Matches")) return undefined;
  try {
    compilePattern(String(assertion.value));
    return undefined;
  } catch (error) {
    return `value: ${error instanceof Error ? error.message : String(error)}`;
  }
}
