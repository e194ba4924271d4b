import { estimateCost } from "../../cel/rule-cost.ts";
import { maxElements, maxOccurrences } from "../../cel/value-bounds.ts";
import { forbiddenCause } from "../../protocol/field-causes.ts";
import type { StatusCause } from "../../protocol/status.ts";
import type { Schema } from "../schema.ts";

/** Limits of the estimated cost of a rule and of all rules of a schema. Same as kube-apiserver. */
const maxRuleCost = 10_000_000;
const maxTotalCost = 100_000_000;
/** Rules that are named if the total is too high. */
const maxNamed = 4;

interface RuleCost {
  readonly field: string;
  readonly cost: number;
}

/**
 * Rejects the CEL rules of a CustomResourceDefinition whose estimated cost exceeds the budget, with kube-apiserver's messages (KEP-2876).
 * A rule costs as much as its expression times the number of values that it is checked for.
 */
export function ruleBudgetCauses(schema: Schema, path: string): StatusCause[] {
  const costs: RuleCost[] = [];
  const causes: StatusCause[] = [];
  visit(schema, path, 1, (field, name, cost) => {
    costs.push({ field, cost });
    if (cost > maxRuleCost) causes.push(forbiddenCause(field, excess(name, cost, maxRuleCost)));
  });
  const total = costs.reduce((sum, { cost }) => sum + cost, 0);
  if (total <= maxTotalCost) return causes;
  const expensive = costs.filter(({ cost }) => cost >= maxTotalCost / 100).toSorted((a, b) => b.cost - a.cost);
  const contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
  const name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
  return [
    ...causes,
    ...expensive.slice(0, maxNamed).map(({ field }) => forbiddenCause(field, contributed)),
    forbiddenCause(path, excess(name, total, maxTotalCost)),
  ];
}

/** Visits the rules of a schema. `occurrences`: how many values of it there can be; undefined if nothing limits them. */
function visit(
  schema: Schema,
  path: string,
  occurrences: number | undefined,
  observe: (field: string, name: string, cost: number) => void,
  isRoot = true,
): void {
  for (const [index, { rule, messageExpression }] of (schema["x-kubernetes-validations"] ?? []).entries()) {
    const at = `${path}.x-kubernetes-validations[${index}]`;
    const factor = occurrences ?? maxOccurrences(schema);
    observe(`${at}.rule`, "estimated rule cost", estimateCost(rule, schema) * factor);
    if (messageExpression !== undefined) {
      const cost = estimateCost(messageExpression, schema) * factor;
      observe(`${at}.messageExpression`, "estimated messageExpression cost", cost);
    }
  }
  const { items, properties = {}, additionalProperties } = schema;
  const limit = maxElements(schema);
  const elements = occurrences === undefined || limit === undefined ? undefined : occurrences * limit;
  if (items !== undefined) visit(items, `${path}.items`, elements, observe, false);
  for (const [name, property] of Object.entries(properties)) {
    // The metadata of an object has rules of its own.
    if (!isRoot || name !== "metadata") visit(property, `${path}.properties[${name}]`, occurrences, observe, false);
  }
  if (typeof additionalProperties === "object") {
    visit(additionalProperties, `${path}.additionalProperties`, elements, observe, false);
  }
}

function excess(name: string, cost: number, limit: number): string {
  const factor = cost / limit;
  const shown = factor > 100 ? "more than 100x" : factor < 1.5 ? `${factor.toFixed(6)}x` : `${factor.toFixed(1)}x`;
  const advice =
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared";
  return `${name} exceeds budget by factor of ${shown} (${advice})`;
}
