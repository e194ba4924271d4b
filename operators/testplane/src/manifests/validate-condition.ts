import type { DeepReadonly } from "@keelson/api-machinery";
import { isDuration } from "@keelson/api-machinery/time";
import type { Expectation, StepCondition } from "../api/expectation.ts";
import { celVariables, validateCel } from "../assertions/cel-assertion.ts";
import { validateJsonPath } from "../assertions/json-path-assertion.ts";
import { validateCall } from "../functions/registry.ts";

/** Validates a condition on the object `ref`, if there is one. `variables` are those of CEL expressions. Appends one line per error, each starting with the path of the field. */
export function validateCondition(
  condition: DeepReadonly<StepCondition> | undefined,
  path: string,
  ref: object | undefined,
  errors: string[],
  variables: readonly string[] = celVariables,
): void {
  for (const list of ["allOf", "anyOf", "failWhen"] as const) {
    for (const [index, expectation] of (condition?.[list] ?? []).entries()) {
      const error = validateExpectation(expectation, ref, variables);
      if (error !== undefined) errors.push(`${path}.${list}[${index}]${error.startsWith(":") ? "" : "."}${error}`);
    }
  }
  const consistently = condition?.consistently;
  if (consistently !== undefined && !isDuration(consistently)) {
    errors.push(`${path}.consistently: ${JSON.stringify(consistently)} is not a duration such as 30s`);
  }
}

const ways = ["function", "matches", "cel", "jsonPath"] as const;

function validateExpectation(
  expectation: DeepReadonly<Expectation>,
  ref: object | undefined,
  variables: readonly string[],
): string | undefined {
  const used = ways.filter((way) => expectation[way] !== undefined);
  const [way] = used;
  if (way === undefined) return ": must have one of function, matches, cel and jsonPath";
  if (used.length > 1) return `: must have only one of ${used.join(" and ")}`;
  if (way === "function") return validateFunction(expectation, ref);
  for (const field of ["webhook", "params"] as const) {
    if (expectation[field] !== undefined) return `${field}: requires function`;
  }
  if (way === "cel") {
    const error = validateCel(expectation.cel ?? "", variables, "bool");
    return error === undefined ? undefined : `cel: ${error}`;
  }
  if (ref === undefined) return `${way}: requires a resource`;
  if (expectation.jsonPath === undefined) return undefined;
  const error = validateJsonPath(expectation.jsonPath);
  return error === undefined ? undefined : `jsonPath.${error}`;
}

function validateFunction(
  { function: name = "", webhook, params }: DeepReadonly<Expectation>,
  ref: object | undefined,
): string | undefined {
  if (webhook === undefined || webhook === "") {
    if (ref === undefined) return `function: ${name} requires a resource`;
    return validateCall("check", name, params);
  }
  const url = URL.canParse(webhook) ? new URL(webhook) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    return `webhook: ${JSON.stringify(webhook)} is not an http or https URL`;
  if (url.username !== "" || url.password !== "")
    return "webhook: must not contain credentials; everyone who can read the test would see them";
  return undefined;
}
