import type { Environment } from "@marcbachmann/cel-js";
import { authorizerType } from "./libraries/authorizer-library.ts";
import { compileErrorText, messageAt } from "./compile-error.ts";
import { kubernetesEnvironment, withLinearMatches } from "./rule-program.ts";
import { isUntypedField, literalPatternFault, untypedCallFault } from "./untyped-calls.ts";

/** A compiled CEL expression on untyped values. */
export interface CelExpression {
  /** Evaluates the expression. Throws if that fails. */
  evaluate(variables: Readonly<Record<string, unknown>>): unknown;
}

/** The type that an expression must have. `text-or-null` is that of audit annotations. */
export type WantedType = "bool" | "string" | "text-or-null" | "any";

const environments = new Map<string, Environment>();

/**
 * Compiles an expression with these variables, or returns why it does not compile. All are untyped except `authorizer`. `wanted` is the
 * type of the result.
 */
export function compileExpression(
  expression: string,
  variables: readonly string[],
  wanted: WantedType,
): CelExpression | string {
  try {
    const parsed = environmentWith(variables).parse(withLinearMatches(expression));
    const { valid, type, error } = parsed.check();
    const fault = valid ? (untypedCallFault(parsed.ast) ?? literalPatternFault(parsed.ast)) : error;
    if (fault !== undefined) return `compilation failed: ${compileErrorText(expression, fault)}`;
    if ((wanted === "string" || wanted === "bool") && type === "dyn" && isUntypedField(parsed.ast))
      return `must evaluate to ${wanted} but got dyn`;
    if (wanted === "string" && type !== "string" && type !== "dyn") return `must evaluate to string but got ${type}`;
    if (wanted === "bool" && type !== "bool" && type !== "dyn") return `must evaluate to bool but got ${type}`;
    if (wanted === "text-or-null" && type !== "string" && type !== "null" && type !== "dyn") {
      return "must evaluate to one of [string null_type]";
    }
    return { evaluate: (values) => parsed({ ...values }) };
  } catch (error) {
    return `compilation failed: ${compileErrorText(expression, error)}`;
  }
}

/** A JSON value as CEL sees it without a schema: integers are `int`. */
export function toCel(value: unknown): unknown {
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(toCel);
  if (typeof value !== "object" || value === null) return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, toCel(child)]));
}

/** The environment of untyped expressions with these variables. */
export function environmentWith(variables: readonly string[]): Environment {
  const key = variables.join();
  let environment = environments.get(key);
  if (environment === undefined) {
    environment = kubernetesEnvironment().clone();
    for (const name of variables) environment.registerVariable(name, name === "authorizer" ? authorizerType : "dyn");
    environments.set(key, environment);
  }
  return environment;
}

/** An error of the library; an undeclared variable in the words of cel-go. */
export function compileMessage(expression: string, message: string): string {
  const name = /^Unknown variable: (\w+)/.exec(message)?.[1];
  const offset = name === undefined ? -1 : expression.search(new RegExp(`\\b${name}\\b`));
  if (name === undefined || offset < 0) return message;
  return messageAt(expression, offset, `undeclared reference to '${name}' (in container '')`);
}
