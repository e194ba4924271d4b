import { childPath, fieldCause, type FieldReason, invalidCause } from "../protocol/field-causes.ts";
import { isJsonObject, jsonEquals } from "../objects/json.ts";
import type { ValidationRule } from "../schema/schema.ts";
import type { RuleEvaluator, RuleSite } from "../schema/rules/evaluate-rules.ts";
import type { StatusCause } from "../protocol/status.ts";
import { compileRules, optionalOld, type RuleProgram, type RuleSet, type RuleSize } from "./rule-program.ts";

/** The maximum number of steps for the rules of one object, like kube-apiserver's budget (KEP-2876). */
const budgetSteps = 10_000_000;

/**
 * Creates an evaluator of the CEL rules of custom resources (`x-kubernetes-validations`). Create one per call of `validate`.
 *
 * **Guarantees**: the rules of one object share a bounded budget; what exceeds it is rejected. A rule that fails on a value
 * which an update did not change is ignored, unless it compares with the old value (KEP-4008).
 */
export function createRuleEvaluator(): RuleEvaluator {
  let left = budgetSteps;
  return (site) => {
    if (left < 0) return [];
    const rules = compileRules(site.schema, site.path === "");
    const causes: StatusCause[] = [];
    const old = site.oldValue === undefined ? undefined : rules.type?.convert(site.oldValue);
    const self = rules.type?.convert(site.value);
    const entries = maxEntries(site.value);
    for (const program of rules.programs) {
      if (program.isTransition && old === undefined) continue;
      left -= costOf(program.size, entries);
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
    return rejection(
      rule,
      site,
      `${evaluationFault(error)} evaluating rule: ${rule.message?.trim() || rule.rule.trim()}`,
      `: ${JSON.stringify(typeName(site))}`,
    );
  }
  return outcome === true ? undefined : rejection(rule, site, messageOf(program, variables), shownValue(site));
}

/** Why a rule failed, in the words of cel-go. */
function evaluationFault(error: unknown): string {
  const text = firstLine(error);
  const conversion = /^(int|uint|double|duration|timestamp)\(\) type error: cannot convert/.exec(text)?.[1];
  if (conversion !== undefined) return `type conversion error from 'string' to '${conversion}'`;
  return text.replace(/^No such key: /, "no such key: ");
}

function messageOf(program: RuleProgram, variables: { readonly self: unknown; readonly oldSelf: unknown }): string {
  try {
    const text = program.message?.(variables);
    if (typeof text === "string" && text.trim() !== "" && !text.includes("\n")) return text.trim();
  } catch {
    // If the message expression fails, the fixed message is used.
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

/** The rejected value, which kube-apiserver shows of scalars only. */
function shownValue({ schema, value }: RuleSite): string {
  return schema.type === "object" || schema.type === "array" ? "" : `: ${JSON.stringify(value)}`;
}

function rejection(
  { reason: wanted, fieldPath = "" }: ValidationRule,
  site: RuleSite,
  detail: string,
  shown: string,
): StatusCause {
  const reason = reasons.find((known) => known === wanted) ?? "FieldValueInvalid";
  const field = fieldPath === "" ? placeOf(site) : joinFieldPath(site.path, fieldPath);
  switch (reason) {
    case "FieldValueForbidden":
      return fieldCause(reason, field, `Forbidden: ${detail}`);
    case "FieldValueRequired":
      return fieldCause(reason, field, `Required value: ${detail}`);
    case "FieldValueDuplicate":
      return fieldCause(reason, field, `Duplicate value${shown}`);
    default:
      return fieldCause(reason, field, `Invalid value${shown}: ${detail}`);
  }
}

/** Joins `.spec.a['x.y']` to `path`, as causes name fields. */
function joinFieldPath(path: string, fieldPath: string): string {
  const steps = [...fieldPath.matchAll(/\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]/g)];
  return steps.reduce((at, [, name, quoted]) => {
    return name === undefined ? `${at}[${(quoted ?? "").replaceAll(/\\(.)/g, "$1")}]` : childPath(at, name);
  }, path);
}

/** Rules that do not compile are rejected with their CRD. If one arrives in another way, it rejects every value. */
function faultCauses({ faults }: RuleSet, site: RuleSite): StatusCause[] {
  return faults
    .filter(({ field }) => field === "rule")
    .map(({ message }) => invalidCause(placeOf(site), typeName(site), `rule compile error: ${firstLine(message)}`));
}

/** The whole object has no path; kube-apiserver prints Go's nil. */
function placeOf({ path }: RuleSite): string {
  return path === "" ? "<nil>" : path;
}

function typeName({ schema }: RuleSite): string {
  return schema.type ?? "object";
}

/** Returns the first line of an error; cel-js appends the source. */
function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0]?.trim() ?? "";
}

function costOf({ nodes, nesting }: RuleSize, entries: number): number {
  return nodes * Math.max(1, entries) ** nesting + entries;
}

/**
 * Returns the maximum number of entries of a list, map or string in a value, which bounds the iterations of a comprehension.
 */
function maxEntries(value: unknown): number {
  if (Array.isArray(value)) return Math.max(value.length, ...value.slice(0, 10_000).map(maxEntries));
  if (!isJsonObject(value)) return 1;
  const children = Object.values(value);
  return children.slice(0, 10_000).reduce((most: number, child) => Math.max(most, maxEntries(child)), children.length);
}
