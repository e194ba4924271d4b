import { compilePattern } from "../schema/pattern.ts";
import { linearMatches } from "./libraries/string-library.ts";

/** A node of the CEL library's syntax tree, after its check. */
interface Node {
  readonly op: string;
  readonly args: unknown;
  readonly start: number;
  readonly end: number;
  readonly input?: string;
}

/** A call of a method. Macros have no candidates. */
interface Call extends Node {
  readonly args: readonly [name: string, receiver: Node & { readonly checkedType: CelType }, parameters: unknown];
  readonly argTypes: readonly CelType[];
  readonly candidates: { findFunction(argTypes: readonly CelType[], receiver: CelType): unknown };
}

interface CelType {
  readonly kind: string;
  readonly type: string;
}

/** A fault in the form of the library's errors. */
export interface CallFault {
  readonly code: "no_matching_overload" | "invalid_pattern";
  readonly summary: string;
  readonly range: { readonly start: number; readonly end: number };
  readonly node: Node;
}

/**
 * Finds the first call of a method of an untyped value that no type accepts, such as `object.name.startsWith(1)`. The library checks only
 * that there is such a method; cel-go also checks the arguments.
 */
export function untypedCallFault(ast: unknown): CallFault | undefined {
  if (Array.isArray(ast)) {
    for (const each of ast) {
      const fault = untypedCallFault(each);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }
  if (!isNode(ast)) return undefined;
  const inner = untypedCallFault(ast.args);
  if (inner !== undefined || !isCall(ast)) return inner;
  const [name, { checkedType: receiver }] = ast.args;
  if (receiver.kind !== "dyn" || Boolean(ast.candidates.findFunction(ast.argTypes, receiver))) return undefined;
  const types = ast.argTypes.map(({ type }) => type).join(", ");
  const summary = `found no matching overload for '${receiver.type}.${name}(${types})'`;
  return { code: "no_matching_overload", summary, range: { start: ast.start, end: ast.end }, node: ast };
}

/** Finds the first pattern of a call of `matches` that is a literal and not a regular expression. */
export function literalPatternFault(ast: unknown): CallFault | undefined {
  if (Array.isArray(ast)) {
    for (const each of ast) {
      const fault = literalPatternFault(each);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }
  if (!isNode(ast)) return undefined;
  const inner = literalPatternFault(ast.args);
  if (inner !== undefined || !Array.isArray(ast.args) || ast.args[0] !== linearMatches) return inner;
  const pattern: unknown = [ast.args.at(-1)].flat().at(-1);
  if (!isNode(pattern) || pattern.op !== "value" || typeof pattern.args !== "string" || isPattern(pattern.args))
    return undefined;
  const { start, end } = pattern;
  return { code: "invalid_pattern", summary: "invalid matches argument", range: { start, end }, node: ast };
}

function isPattern(text: string): boolean {
  try {
    compilePattern(text);
    return true;
  } catch {
    return false;
  }
}

/** Variables of admission that have no type. */
const untypedVariables = new Set<unknown>(["object", "oldObject", "params"]);

/** Whether an expression is just a field of an untyped variable, such as `object.spec.paused`. */
export function isUntypedField(ast: unknown): boolean {
  if (!isNode(ast)) return false;
  if (ast.op === "id") return untypedVariables.has(ast.args);
  return (ast.op === "." || ast.op === "[]") && Array.isArray(ast.args) && isUntypedField(ast.args[0]);
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

function isCall(node: Node): node is Call {
  return node.op === "rcall" && "candidates" in node && "argTypes" in node;
}
