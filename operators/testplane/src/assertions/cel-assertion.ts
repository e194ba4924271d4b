import { type CelExpression, compileExpression, toCel } from "@keelson/api-machinery/cel";
import { textOf } from "../functions/read.ts";

/** Variables of an expression by name, as JSON. */
export type CelVariables = Readonly<Record<string, unknown>>;

/** Variables of every expression of a test. */
export const celVariables = ["object", "objects"] as const;

/** Result of an expression. */
export type CelResult =
  | { readonly kind: "value"; readonly value: unknown }
  /** The expression failed, such as for a field that does not exist. */
  | { readonly kind: "error"; readonly message: string };

/** Evaluates an expression. The result is JSON. */
export function evaluateCel(expression: string, variables: CelVariables): CelResult {
  const compiled = compileExpression(expression, Object.keys(variables), "any");
  if (typeof compiled === "string") return { kind: "error", message: compiled };
  try {
    return { kind: "value", value: fromCel(evaluate(compiled, variables)) };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // The library appends the source.
    return { kind: "error", message: text.split("\n", 1)[0] ?? "" };
  }
}

const evaluate = (compiled: CelExpression, variables: CelVariables): unknown =>
  compiled.evaluate(Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, toCel(value)])));

/** Why an expression does not compile; `undefined` if it does. */
export function validateCel(expression: string, variables: readonly string[], wanted: "bool" | "any"): string | undefined {
  const compiled = compileExpression(expression, variables, wanted);
  return typeof compiled === "string" ? compiled : undefined;
}

/** A CEL value as JSON. */
function fromCel(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(fromCel);
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, child]) => [textOf(fromCel(key)), fromCel(child)]));
  if (value instanceof Date) return value.toISOString();
  if (typeof value !== "object" || value === null) return value;
  if (Object.getPrototypeOf(value) !== Object.prototype && Object.getPrototypeOf(value) !== null) return String(value);
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, fromCel(child)]));
}
