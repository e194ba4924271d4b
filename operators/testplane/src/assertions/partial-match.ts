import { isJsonObject, jsonEquals } from "@keelson/api-machinery";
import { textOf } from "../functions/read.ts";

/** A field whose value differs from the expected one. */
export interface Difference {
  /** `status.conditions[0].type`; empty for the whole object. */
  readonly path: string;
  /** As JSON. `undefined` if the field must not exist. */
  readonly expected: string | undefined;
  /** As JSON. `undefined` if the field does not exist. */
  readonly actual: string | undefined;
}

/** Maximum differences of one object. */
const maxDifferences = 50;

/**
 * The fields of `actual` that differ from a partial object, with the semantics of chainsaw and kuttl: every field of `expected` must
 * exist and match, further fields of `actual` are ignored, and a list must have the same length and match element by element. A field
 * that is expected to be null must be absent or null.
 */
export function partialDifferences(expected: unknown, actual: unknown): readonly Difference[] {
  const differences: Difference[] = [];
  compare(expected, actual, "", differences);
  return differences;
}

function compare(expected: unknown, actual: unknown, path: string, differences: Difference[]): void {
  if (differences.length >= maxDifferences) return;
  if (expected === null || expected === undefined) {
    if (actual !== null && actual !== undefined) differences.push({ path, expected: undefined, actual: jsonOf(actual) });
  } else if (isJsonObject(expected) && isJsonObject(actual)) {
    for (const [name, value] of Object.entries(expected)) {
      compare(value, Object.hasOwn(actual, name) ? actual[name] : undefined, childPath(path, name), differences);
    }
  } else if (Array.isArray(expected) && Array.isArray(actual)) {
    compareLists(expected, actual, path, differences);
  } else if (!jsonEquals(expected, actual)) {
    differences.push({ path, expected: jsonOf(expected), actual: jsonOf(actual) });
  }
}

function compareLists(expected: readonly unknown[], actual: readonly unknown[], path: string, differences: Difference[]): void {
  if (expected.length !== actual.length) {
    differences.push({
      path: `${path}.length`,
      expected: String(expected.length),
      actual: String(actual.length),
    });
    return;
  }
  for (const [index, value] of expected.entries()) compare(value, actual[index], `${path}[${index}]`, differences);
}

const jsonOf = (value: unknown): string | undefined => (value === undefined ? undefined : JSON.stringify(value));

const childPath = (path: string, name: string): string => {
  if (!/^[A-Za-z_][\w-]*$/.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === "" ? name : `${path}.${name}`;
};

/** Differences as a diff: `- path: expected`, `+ path: actual`. */
export function formatDifferences(differences: readonly Difference[]): string {
  return differences
    .map(({ path, expected, actual }) => `- ${path}: ${expected ?? "absent"}\n+ ${path}: ${actual ?? "absent"}`)
    .join("\n");
}

/** The first difference in one line. */
export function describeDifferences(differences: readonly Difference[]): string {
  const [first] = differences;
  if (first === undefined) return "";
  const more = differences.length > 1 ? ` (and ${differences.length - 1} more)` : "";
  return `${first.path} is ${textOf(first.actual ?? "absent")}, not ${textOf(first.expected ?? "absent")}${more}`;
}
