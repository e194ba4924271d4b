import { forbiddenCause } from "../../protocol/field-causes.ts";
import type { StatusCause } from "../../protocol/status.ts";
import { isJsonObject } from "../../objects/json.ts";
import { asNode, entries, list, maxSchemaDepth, type SchemaNode } from "../schema-node.ts";

/** Maximum number of different patterns, and of CEL rules, of a schema. They are compiled in one turn; the largest CRDs have a few hundred. */
const maxExpressions = 1_000;

/** Maximum number of characters of the different patterns of a schema. */
const maxPatternCharacters = 50_000;

/** Reports a schema with so many patterns or CEL rules that compiling them would delay other requests. */
export function expressionLimitCauses(schema: SchemaNode, path: string): StatusCause[] {
  const patterns = new Set<string>();
  let rules = 0;
  const visit = (node: SchemaNode, depth: number): void => {
    if (depth > maxSchemaDepth || patterns.size > maxExpressions) return;
    if (typeof node.pattern === "string") patterns.add(node.pattern);
    rules += list(node["x-kubernetes-validations"]).length;
    for (const [, property] of entries(node.properties)) visit(property, depth + 1);
    for (const key of logic) for (const branch of list(node[key])) visit(asNode(branch), depth + 1);
    for (const key of single) if (isJsonObject(node[key])) visit(asNode(node[key]), depth + 1);
  };
  visit(schema, 0);
  const characters = [...patterns].reduce((sum, { length }) => sum + length, 0);
  const causes: StatusCause[] = [];
  const forbid = (detail: string): unknown => causes.push(forbiddenCause(path, detail));
  if (patterns.size > maxExpressions) forbid(`must not have more than ${maxExpressions} different patterns`);
  if (characters > maxPatternCharacters) forbid(`must not have patterns of more than ${maxPatternCharacters} characters`);
  if (rules > maxExpressions) forbid(`must not have more than ${maxExpressions} rules in x-kubernetes-validations`);
  return causes;
}

/** Keywords with a list of schemas, and with one schema. */
const logic = ["allOf", "anyOf", "oneOf"];
const single = ["items", "additionalProperties", "not"];
