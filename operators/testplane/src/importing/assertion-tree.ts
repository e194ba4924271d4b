import { isJsonObject } from "@keelson/api-machinery";
import { celLiteral, matchesCel, memberOf, operandOf } from "./cel-text.ts";
import { type ExpressionScope, jmesPathToCel, type Variables } from "./jmespath-to-cel.ts";
import { ConversionError } from "./problem-list.ts";

type Json = Readonly<Record<string, unknown>>;

/** The checks of an assertion: a partial object without expressions, and CEL. */
export interface AssertionChecks {
  readonly matches: Json | undefined;
  readonly cel: readonly string[];
}

/** The source of an expression such as `($name)`; undefined for another text. */
export const expressionOf = (value: unknown): string | undefined =>
  typeof value === "string" ? /^\s*\((.*)\)\s*$/s.exec(value)?.[1] : undefined;

/** Converts an assertion about a value. **Errors**: a {@link ConversionError} for iterations, bindings and what JMESPath has more than CEL. */
export function convertAssertion(tree: Json, scope: ExpressionScope): AssertionChecks {
  const cel: string[] = [];
  const matches = partOf(tree, scope, cel);
  return { matches: Object.keys(matches).length === 0 ? undefined : matches, cel };
}

/** The part of a tree without expressions. Appends CEL for the others. */
function partOf(tree: Json, scope: ExpressionScope, cel: string[]): Json {
  const part: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(tree)) {
    if (/^~|->\w+$/.test(key)) throw new ConversionError(`${key}: iterations and named values have no counterpart`);
    const source = expressionOf(key);
    if (source !== undefined) cel.push(...checksOf(operandOf(jmesPathToCel(source, scope)), value, scope.variables));
    else if (scope.root === undefined) throw new ConversionError(`${key}: must be an expression`);
    else if (!hasExpression(value)) part[key] = value;
    else {
      const member = memberOf(scope.root, key);
      if (isJsonObject(value)) {
        const inner = partOf(value, { ...scope, root: member }, cel);
        if (Object.keys(inner).length > 0) part[key] = inner;
      } else cel.push(...checksOf(member, value, scope.variables));
    }
  }
  return part;
}

/** Checks that a CEL value equals an expected one, which may be an expression without a current value. */
function checksOf(actual: string, expected: unknown, variables: Variables): readonly string[] {
  const source = expressionOf(expected);
  if (source !== undefined) return [`${actual} == ${operandOf(jmesPathToCel(source, { variables, root: undefined }))}`];
  if (isJsonObject(expected)) {
    const cel: string[] = [];
    const inner = partOf(expected, { variables, root: actual }, cel);
    return [...(Object.keys(inner).length === 0 ? [] : [matchesCel(actual, inner)]), ...cel];
  }
  if (hasExpression(expected)) throw new ConversionError("expressions within lists have no counterpart");
  if (expected === true) return [actual];
  if (expected === false) return [`!(${actual})`];
  return [Array.isArray(expected) ? matchesCel(actual, expected) : `${actual} == ${celLiteral(expected)}`];
}

/** Whether a value contains an expression. */
export function hasExpression(value: unknown): boolean {
  if (typeof value === "string") return expressionOf(value) !== undefined;
  if (Array.isArray(value)) return value.some(hasExpression);
  return isJsonObject(value) && Object.entries(value).some(([key, child]) => /^~|^\(|->\w+$/.test(key) || hasExpression(child));
}

/** A value with its expressions as `${{ CEL }}`. **Errors**: a {@link ConversionError} for one that has no counterpart. */
export function convertTemplate(value: unknown, variables: Variables): unknown {
  const source = expressionOf(value);
  if (source !== undefined) return `\${{ ${jmesPathToCel(source, { variables, root: undefined })} }}`;
  if (Array.isArray(value)) return value.map((each) => convertTemplate(each, variables));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, convertTemplate(child, variables)]));
}
