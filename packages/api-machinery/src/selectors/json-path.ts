import { parseJsonPathSteps, type FilterOperand, type JsonPathStep } from "./json-path-syntax.ts";

/** A compiled JSONPath. */
export interface JsonPath {
  /** Returns the values that the path selects in `root`, in order. */
  (root: unknown): unknown[];
}

const maxResults = 100_000;
const maxDepth = 256;

/**
 * Compiles a JSONPath as used by printer columns and `kubectl -o jsonpath`: `.status.conditions[?(@.type=="Ready")].status`,
 * `.spec['a.b']`, `.items[*].name`, `[0]`, `[-1]`, `[1:3]`, `['a','b']`, `..name`. Braces and the leading `$` are optional.
 *
 * **Errors**: a `SyntaxError` that names the path and the offset.
 */
export function parseJsonPath(text: string): JsonPath {
  const steps = parseJsonPathSteps(text);
  return (root) => walk(steps, root, root);
}

function walk(steps: readonly JsonPathStep[], start: unknown, root: unknown): unknown[] {
  let values: unknown[] = [start];
  for (const step of steps) {
    const next: unknown[] = [];
    for (const value of values) {
      follow(step, value, root, next);
      if (next.length > maxResults) throw new RangeError(`JSONPath selects more than ${maxResults} values`);
    }
    values = next;
    if (values.length === 0) break;
  }
  return values;
}

function follow(step: JsonPathStep, value: unknown, root: unknown, results: unknown[]): void {
  if (step.kind === "root") {
    results.push(root);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  switch (step.kind) {
    case "fields":
      for (const name of step.names) {
        if (!Array.isArray(value) && Object.hasOwn(value, name)) results.push((value as Record<string, unknown>)[name]);
      }
      return;
    case "wildcard":
      for (const child of Object.values(value)) results.push(child);
      return;
    case "descend":
      descend(value, results, 0);
      return;
    case "slice":
      if (Array.isArray(value)) slice(value, step.from, step.to, step.step, results);
      return;
    case "indices":
      if (!Array.isArray(value)) return;
      for (const index of step.indices) {
        const at = index < 0 ? value.length + index : index;
        if (at >= 0 && at < value.length) results.push(value[at]);
      }
      return;
    case "filter":
      for (const item of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) {
        if (holds(step.left, step.operator, step.right, item, root)) results.push(item);
      }
  }
}

function descend(value: unknown, results: unknown[], depth: number): void {
  if (typeof value !== "object" || value === null || depth > maxDepth || results.length > maxResults) return;
  results.push(value);
  for (const child of Object.values(value)) descend(child, results, depth + 1);
}

function slice(
  list: readonly unknown[],
  from: number | undefined,
  to: number | undefined,
  step: number,
  results: unknown[],
): void {
  const start = clamp(from ?? 0, list.length);
  const end = clamp(to ?? list.length, list.length);
  for (let at = start; at < end; at += step) results.push(list[at]);
}

function clamp(index: number, length: number): number {
  return Math.max(0, Math.min(length, index < 0 ? index + length : index));
}

function holds(left: FilterOperand, operator: string, right: FilterOperand | undefined, item: unknown, root: unknown): boolean {
  const a = operand(left, item, root);
  if (right === undefined) return a !== undefined;
  const b = operand(right, item, root);
  if (operator === "==") return a === b;
  if (operator === "!=") return a !== b;
  if (!(typeof a === "number" && typeof b === "number") && !(typeof a === "string" && typeof b === "string")) return false;
  switch (operator) {
    case "<":
      return a < b;
    case "<=":
      return a <= b;
    case ">":
      return a > b;
    default:
      return a >= b;
  }
}

function operand(side: FilterOperand, item: unknown, root: unknown): unknown {
  return side.kind === "literal" ? side.value : walk(side.steps, item, root)[0];
}
