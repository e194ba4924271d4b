import { childPath, fieldCause, type FieldReason, invalidCause } from "../protocol/field-causes.ts";
import { isJsonObject, jsonEquals } from "../objects/json.ts";
import type { ValidationRule } from "../schema/schema.ts";
import type { RuleEvaluator, RuleSite } from "../schema/evaluate-rules.ts";
import type { StatusCause } from "../protocol/status.ts";
import { compileRules, optionalOld, type RuleProgram, type RuleSet, type RuleSize } from "./rule-program.ts";

/** How many steps the rules of one object may take together, at most; as kube-apiserver's budget (KEP-2876). */
const budgetSteps = 10_000_000;

/**
 * Evaluates the CEL rules of custom resources (`x-kubernetes-validations`): hand one to each call of `validate`.
 *
 * **Guarantees**: the rules of one object take bounded time together; what they would cost beyond that is refused. A rule that fails for a
 * value which did not change in an update is no fault, unless it compares with the value before (KEP-4008).
 */
export function createRuleEvaluator(): RuleEvaluator {
  let left = budgetSteps;
  return (site) => {
    if (left < 0) return [];
    const rules = compileRules(site.schema, site.path === "");
    const causes: StatusCause[] = [];
    const old = site.oldValue === undefined ? undefined : rules.type?.convert(site.oldValue);
    const self = rules.type?.convert(site.value);
    const longest = longestList(site.value);
    for (const program of rules.programs) {
      if (program.isTransition && old === undefined) continue;
      left -= costOf(program.size, longest);
      if (left < 0) {
        const detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        causes.push(invalidCause(placeOf(site), typeName(site), detail));
        break;
      }
      const oldSelf = program.rule.optionalOldSelf === true ? optionalOld(old) : old;
      const cause = evaluate(program, site, { self, oldSelf });
      if (cause === undefined) continue;
      if (!program.isTransition && site.oldValue !== undefined && jsonEquals(site.value, site.oldValue)) continue;
      causes.push(cause);
    }
    causes.push(...faultCauses(rules, site));
    return causes;
  };
}

function evaluate(
  program: RuleProgram,
  site: RuleSite,
  variables: { readonly self: unknown; readonly oldSelf: unknown },
): StatusCause | undefined {
  const { rule } = program;
  let outcome: unknown;
  try {
    outcome = program.evaluate(variables);
  } catch (error) {
    return refusal(rule, site, `${firstLine(error)} evaluating rule: ${plainMessage(rule)}`);
  }
  return outcome === true ? undefined : refusal(rule, site, messageOf(program, variables));
}

function messageOf(program: RuleProgram, variables: { readonly self: unknown; readonly oldSelf: unknown }): string {
  try {
    const text = program.message?.(variables);
    if (typeof text === "string" && text.trim() !== "" && !text.includes("\n")) return text.trim();
  } catch {
    // An expression that fails gives way to the message that is always there.
  }
  return plainMessage(program.rule);
}

function plainMessage({ message = "", rule }: ValidationRule): string {
  return message.trim() === "" ? `failed rule: ${rule.trim()}` : message.trim();
}

const reasons: readonly FieldReason[] = [
  "FieldValueInvalid",
  "FieldValueForbidden",
  "FieldValueRequired",
  "FieldValueDuplicate",
];

function refusal({ reason: wanted, fieldPath = "" }: ValidationRule, site: RuleSite, detail: string): StatusCause {
  const reason = reasons.find((known) => known === wanted) ?? "FieldValueInvalid";
  const field = fieldPath === "" ? placeOf(site) : joinFieldPath(site.path, fieldPath);
  const value = JSON.stringify(typeName(site));
  switch (reason) {
    case "FieldValueForbidden":
      return fieldCause(reason, field, `Forbidden: ${detail}`);
    case "FieldValueRequired":
      return fieldCause(reason, field, `Required value: ${detail}`);
    case "FieldValueDuplicate":
      return fieldCause(reason, field, `Duplicate value: ${value}`);
    default:
      return fieldCause(reason, field, `Invalid value: ${value}: ${detail}`);
  }
}

/** `.spec.a['x.y']` below `path`, as causes name fields. */
function joinFieldPath(path: string, fieldPath: string): string {
  const steps = [...fieldPath.matchAll(/\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]/g)];
  return steps.reduce((at, [, name, quoted]) => {
    return name === undefined ? `${at}[${(quoted ?? "").replaceAll(/\\(.)/g, "$1")}]` : childPath(at, name);
  }, path);
}

/** Rules that do not compile are refused with their CRD; one that came in some other way refuses every value. */
function faultCauses({ faults }: RuleSet, site: RuleSite): StatusCause[] {
  return faults
    .filter(({ field }) => field === "rule")
    .map(({ message }) => invalidCause(placeOf(site), typeName(site), `rule compile error: ${firstLine(message)}`));
}

/** The whole object has no path, and kube-apiserver says so as Go prints it. */
function placeOf({ path }: RuleSite): string {
  return path === "" ? "<nil>" : path;
}

function typeName({ schema }: RuleSite): string {
  return schema.type ?? "object";
}

/** Of an error, what is to be said: cel-js shows the source on further lines. */
function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0]?.trim() ?? "";
}

function costOf({ nodes, nesting }: RuleSize, longest: number): number {
  return nodes * Math.max(1, longest) ** nesting + longest;
}

/** The most entries that one list, map or text of a value has: how often one comprehension goes round. */
function longestList(value: unknown): number {
  if (Array.isArray(value)) return Math.max(value.length, ...value.slice(0, 10_000).map(longestList));
  if (!isJsonObject(value)) return 1;
  const children = Object.values(value);
  return children.slice(0, 10_000).reduce((most: number, child) => Math.max(most, longestList(child)), children.length);
}
