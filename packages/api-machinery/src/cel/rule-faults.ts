import { fieldCause, invalidCause, notSupportedCause, requiredCause } from "../protocol/field-causes.ts";
import type { Schema } from "../schema/schema.ts";
import type { StatusCause } from "../protocol/status.ts";
import { compileRules } from "./rule-program.ts";

const reasons = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/**
 * Reports faults of the CEL rules of one schema in a CustomResourceDefinition, with kube-apiserver's messages.
 * `isCorrelatable` is false below lists whose items cannot be matched with old ones; rules there must not use `oldSelf`.
 */
export function ruleCauses(
  schema: Schema,
  path: string,
  place: { readonly isRoot: boolean; readonly isCorrelatable: boolean },
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
      causes.push(invalidCause(at(index, "message"), message, "message must be non-empty if specified"));
    } else if (message.includes("\n")) {
      causes.push(invalidCause(at(index, "message"), message, "message must not contain line breaks"));
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
      causes.push(invalidCause(at(index, "fieldPath"), rule.fieldPath, "fieldPath must be a valid path"));
    }
  }
  const { programs, faults } = compileRules(schema, place.isRoot);
  for (const { index, field, message } of faults) {
    const rule = rules[index]?.[field] ?? "";
    // Reported already: it is empty.
    if (rule.trim() === "") continue;
    const kind = field === "rule" ? "compilation failed" : "messageExpression compilation failed";
    causes.push(invalidCause(at(index, field), rule, `${kind}: ERROR: ${message}`));
  }
  if (!place.isCorrelatable) {
    for (const program of programs) {
      if (!program.isTransition) continue;
      causes.push(
        fieldCause(
          "FieldValueInvalid",
          at(schema["x-kubernetes-validations"]?.indexOf(program.rule) ?? 0, "rule"),
          `Invalid value: ${JSON.stringify(program.rule.rule)}: oldSelf cannot be used on the uncorrelatable portion of the schema`,
        ),
      );
    }
  }
  return causes;
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
