import { fieldCause, invalidCause, notSupportedCause, requiredCause } from "../protocol/field-causes.ts";
import { quoteText } from "../protocol/quote-text.ts";
import type { Schema, ValidationRule } from "../schema/schema.ts";
import type { StatusCause } from "../protocol/status.ts";
import { compileRules } from "./rule-program.ts";

const reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/**
 * Reports faults of the CEL rules of one schema in a CustomResourceDefinition, with kube-apiserver's messages.
 * `uncorrelatable` is the path of the closest schema to the root whose children cannot be matched with their old values; rules below it must
 * not use `oldSelf`.
 */
export function ruleCauses(
  schema: Schema,
  path: string,
  place: { readonly isRoot: boolean; readonly uncorrelatable: string | undefined },
): StatusCause[] {
  const rules = schema["x-kubernetes-validations"];
  if (!Array.isArray(rules) || rules.length === 0) return [];
  const causes: StatusCause[] = [];
  const at = (index: number, field: string): string => `${path}.x-kubernetes-validations[${index}].${field}`;
  for (const [index, rule] of schema["x-kubernetes-validations"]?.entries() ?? []) {
    if ((rule.rule ?? "").trim() === "") {
      causes.push(requiredCause(at(index, "rule"), "rule is not specified"));
      continue;
    }
    const message = rule.message ?? "";
    if (message !== "" && message.trim() === "") {
      causes.push(invalidCause(at(index, "message"), message, "must be non-empty if specified"));
    } else if (message.includes("\n")) {
      causes.push(invalidCause(at(index, "message"), message, "must not contain line breaks"));
    } else if (message === "" && rule.rule.trim().includes("\n")) {
      causes.push(requiredCause(at(index, "message"), "message must be specified if rule contains line breaks"));
    }
    if (rule.messageExpression !== undefined && rule.messageExpression.trim() === "") {
      causes.push(requiredCause(at(index, "messageExpression"), "messageExpression must be non-empty if specified"));
    }
    if (rule.reason !== undefined && !reasons.includes(rule.reason)) {
      causes.push(notSupportedCause(at(index, "reason"), rule.reason, reasons));
    }
    if (rule.fieldPath !== undefined && !isFieldPath(schema, rule.fieldPath)) {
      causes.push(invalidCause(at(index, "fieldPath"), rule.fieldPath, "must be a valid path"));
    }
  }
  const { programs, faults } = compileRules(schema, place.isRoot);
  for (const { index, field, message } of faults) {
    const rule = rules[index];
    // Reported already: it is empty.
    if (rule === undefined || (rule[field] ?? "").trim() === "") continue;
    causes.push(invalidCause(at(index, field), printedRule(rule), faultText(field, message)));
  }
  for (const { usesOld, rule } of programs) {
    if (usesOld || rule.optionalOldSelf === undefined) continue;
    const detail = "may not be set if oldSelf is not used in rule";
    causes.push(invalidCause(at(rules.indexOf(rule), "optionalOldSelf"), rule.optionalOldSelf, detail));
  }
  if (place.uncorrelatable !== undefined) {
    for (const program of programs) {
      if (!program.isTransition) continue;
      causes.push(
        fieldCause(
          "FieldValueInvalid",
          at(schema["x-kubernetes-validations"]?.indexOf(program.rule) ?? 0, "rule"),
          `Invalid value: ${quoteText(program.rule.rule)}: oldSelf cannot be used on the uncorrelatable portion of the schema within ${place.uncorrelatable}`,
        ),
      );
    }
  }
  return causes;
}

/** A rule as kube-apiserver prints its internal type. */
function printedRule(rule: ValidationRule): Readonly<Record<string, unknown>> {
  const { message = "", messageExpression = "", reason = null, fieldPath = "", optionalOldSelf = null } = rule;
  return {
    Rule: rule.rule,
    Message: message,
    MessageExpression: messageExpression,
    Reason: reason,
    FieldPath: fieldPath,
    OptionalOldSelf: optionalOldSelf,
  };
}

function faultText(field: "rule" | "messageExpression", message: string): string {
  const isType = message.startsWith("must ");
  if (field === "rule") return isType ? `cel expression ${message}` : message;
  return `messageExpression ${message}`;
}

/** Reports whether a path such as `.a.b` or `['x.y']` leads to a property of the schema. */
function isFieldPath(schema: Schema, path: string): boolean {
  const step = /\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]/y;
  let at: Schema | undefined = schema;
  while (step.lastIndex < path.length) {
    const match = step.exec(path);
    if (match === null || at === undefined) return false;
    const name: string = match[1] ?? (match[2] ?? "").replaceAll(/\\(.)/g, "$1");
    const { properties, additionalProperties }: Schema = at;
    if (properties && Object.hasOwn(properties, name)) at = properties[name];
    else at = typeof additionalProperties === "object" ? additionalProperties : undefined;
    if (at === undefined) return false;
  }
  return path !== "";
}
