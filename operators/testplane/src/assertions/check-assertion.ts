import type { DeepReadonly } from "@keelson/api-machinery";
import type { Expectation } from "../api/expectation.ts";
import { type CheckResult, fail, failPermanently, pass, type Resource } from "../functions/function.ts";
import { textOf } from "../functions/read.ts";
import { type CelVariables, evaluateCel } from "./cel-assertion.ts";
import { checkJsonPath } from "./json-path-assertion.ts";
import { describeDifferences, formatDifferences, partialDifferences } from "./partial-match.ts";

/** An expectation that is not a function: a partial object, an expression, or a path. */
export const isAssertion = ({ matches, cel, jsonPath }: DeepReadonly<Expectation>): boolean =>
  matches !== undefined || cel !== undefined || jsonPath !== undefined;

/** Name of an expectation in results. */
export function expectationName({ name, function: called, cel, jsonPath, matches }: DeepReadonly<Expectation>): string {
  if (name !== undefined) return name;
  if (called !== undefined) return called;
  if (cel !== undefined) return cel;
  if (jsonPath !== undefined) return jsonPath.path;
  return matches === undefined ? "" : "matches";
}

/** Checks an assertion on one object. The message does not repeat the name of the expectation. */
export function checkAssertion(
  { name, matches, cel, jsonPath }: DeepReadonly<Expectation>,
  resource: Resource,
  variables: CelVariables,
): CheckResult {
  if (matches !== undefined) return checkPartial(matches, resource);
  const prefix = (text: string): string => (name === undefined ? "" : `${text} `);
  if (cel !== undefined) return checkCel(cel, prefix(cel), { ...variables, object: resource ?? null });
  if (jsonPath === undefined) return failPermanently("the expectation checks nothing");
  // Otherwise a path that must be absent would be absent, even if a selector selects nothing.
  if (resource === undefined) return fail("the object does not exist", "absent");
  const { passed, expected, actual } = checkJsonPath(jsonPath, resource);
  if (passed) return pass(actual);
  const what = `${prefix(jsonPath.path)}${jsonPath.count ? "has a number of values that is" : "is"}`;
  return { ...fail(`${what} ${actual}, expected ${expected}`, actual), expected };
}

function checkPartial(matches: unknown, resource: Resource): CheckResult {
  if (resource === undefined) return fail("the object does not exist", "absent");
  const differences = partialDifferences(matches, resource);
  if (differences.length === 0) return pass("matches");
  const [first] = differences;
  return {
    ...fail(describeDifferences(differences), first?.actual ?? "absent"),
    expected: first?.expected ?? "absent",
    diff: formatDifferences(differences),
  };
}

function checkCel(expression: string, prefix: string, variables: CelVariables): CheckResult {
  const result = evaluateCel(expression, variables);
  // A field that does not exist yet is an error in CEL, and may exist later.
  if (result.kind === "error") return fail(`${prefix}cannot be evaluated: ${result.message}`, "error");
  if (result.value === true) {
    if (!isVacuous(expression, variables)) return pass("true");
    return fail(
      `${prefix}holds because nothing is selected; if that is intended, add: objects.size() == 0 || ...`,
      "no objects",
    );
  }
  if (result.value === false) return { ...fail(`${prefix}is false`, "false"), expected: "true" };
  return fail(`${prefix}is ${textOf(result.value)}, but must be true or false`, textOf(result.value));
}

/**
 * Whether an expression about all selected objects holds because there is none, such as `objects.all(...)` with a selector that is wrong. One
 * that asks for their number, or compares a list, does not.
 */
function isVacuous(expression: string, { object, objects }: CelVariables): boolean {
  const isEmpty = object === null && Array.isArray(objects) && objects.length === 0;
  return isEmpty && /\bobjects\b/.test(expression) && !/\bobject\b|\bsize\s*\(|[!=]=\s*\[/.test(expression);
}
