import { linearMatches } from "./libraries/string-library.ts";

/** The parts of the CEL library's errors that locate a fault. */
interface LibraryError {
  readonly code?: unknown;
  readonly summary?: unknown;
  readonly range?: { readonly start: number; readonly end: number };
  readonly node?: {
    readonly input?: string;
    readonly args?: unknown;
    /** Of a call: the functions of its name. */
    readonly candidates?: { readonly declarations?: readonly unknown[] };
  };
}

/** The tokens that an expression can start with, as the parser of cel-go lists them. */
const expressionStart =
  "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/**
 * The text of a compile error in the format of cel-go: position, message, and the line with a marker. Faults that have no counterpart keep
 * the message of the library.
 */
export function compileErrorText(expression: string, error: unknown): string {
  if (!isLibraryError(error)) return error instanceof Error ? error.message : String(error);
  const { range, node } = error;
  if (range === undefined) return String(error.summary ?? "it has no type");
  const input = node?.input ?? expression;
  const { offset, message } = faultOf(error, input, range);
  return messageAt(expression, input.slice(0, offset).replaceAll(linearMatches, "matches").length, message);
}

/** A compile error at an offset, as cel-go shows it. */
export function messageAt(expression: string, offset: number, message: string): string {
  const before = expression.slice(0, offset).split("\n");
  const [line, column] = [before.length, before.at(-1)?.length ?? 0];
  const text = expression.split("\n")[line - 1] ?? "";
  return `ERROR: <input>:${line}:${column + 1}: ${message}\n | ${text}\n | ${".".repeat(column)}^`;
}

interface Fault {
  readonly offset: number;
  readonly message: string;
}

function faultOf(error: LibraryError, input: string, range: { readonly start: number; readonly end: number }): Fault {
  const summary = String(error.summary ?? "").replaceAll(linearMatches, "matches");
  const { start, end } = range;
  switch (error.code) {
    case "unexpected_token":
      if (!summary.endsWith(": EOF")) break;
      return { offset: start, message: `Syntax error: mismatched input '<EOF>' expecting ${expressionStart}` };
    case "expected_token":
      if (!summary.endsWith("IDENTIFIER, got EOF")) break;
      return { offset: start, message: "Syntax error: no viable alternative at input '.'" };
    case "unknown_variable":
      return { offset: start, message: `undeclared reference to '${input.slice(start, end)}' (in container '')` };
    case "no_such_key":
      return { offset: dotBefore(input, start), message: `undefined field '${input.slice(start, end)}'` };
    case "cannot_index_type": {
      const type = /'(.*)'$/.exec(summary)?.[1] ?? "";
      return { offset: dotBefore(input, start), message: `type '${type}' does not support field selection` };
    }
    case "no_such_overload":
      return operatorFault(error, input, start, summary);
    case "no_matching_overload":
      return callFault(error, input, start, summary);
    case "invalid_comprehension_range":
      return { offset: start, message: summary.replace(/^E/, "e").replace(/\.$/, "") };
    case "incompatible_ternary_branches":
      return ternaryFault(error, input, start, summary);
    default:
  }
  const isSyntax = ["unexpected_token", "expected_token", "unexpected_character"].includes(String(error.code));
  return { offset: start, message: isSyntax ? `Syntax error: ${summary}` : summary };
}

/** A binary operator is located at its sign, which follows the left operand; a unary one at its start. */
function operatorFault({ node }: LibraryError, input: string, start: number, summary: string): Fault {
  const binary = /^no such overload: (\S+) (\S+) (\S+)$/.exec(summary);
  if (binary !== null) {
    const [, left = "", operator = "", right = ""] = binary;
    const operand: unknown = Array.isArray(node?.args) ? node.args[0] : undefined;
    const offset = input.indexOf(operator, endOf(operand) ?? start);
    const name = operator === "in" ? "@in" : `_${operator}_`;
    return { offset, message: `found no matching overload for '${name}' applied to '(${left}, ${right})'` };
  }
  const unary = /^no such overload: ([!-])(\S+)$/.exec(summary);
  if (unary === null) return { offset: start, message: summary };
  return { offset: start, message: `found no matching overload for '${unary[1]}_' applied to '(${unary[2]})'` };
}

/** A conditional is located at its question mark, which follows the condition. */
function ternaryFault({ node }: LibraryError, input: string, start: number, summary: string): Fault {
  const [, left = "", right = ""] = /got '(.*)' and '(.*)'$/.exec(summary) ?? [];
  const condition: unknown = Array.isArray(node?.args) ? node.args[0] : undefined;
  const offset = input.indexOf("?", endOf(condition) ?? start);
  return { offset, message: `found no matching overload for '_?_:_' applied to '(bool, ${left}, ${right})'` };
}

/** A call is located at its opening parenthesis. */
function callFault({ node }: LibraryError, input: string, start: number, summary: string): Fault {
  const [, receiver, name = "", types = ""] = /^found no matching overload for '(?:(.*)\.)?(\w+)\((.*)\)'$/.exec(summary) ?? [];
  const named = input.indexOf(name, start);
  const offset = Math.max(input.indexOf("(", named), start);
  if (node?.candidates?.declarations?.length === 0) {
    return { offset, message: `undeclared reference to '${name}' (in container '')` };
  }
  const applied = receiver === undefined ? `(${types})` : `${receiver}.(${types})`;
  return { offset, message: `found no matching overload for '${name}' applied to '${applied}'` };
}

/** The dot of a field selection, whose name starts at `start`. */
function dotBefore(input: string, start: number): number {
  return Math.max(input.lastIndexOf(".", start), 0);
}

function endOf(node: unknown): number | undefined {
  return typeof node === "object" && node !== null && "end" in node && typeof node.end === "number" ? node.end : undefined;
}

function isLibraryError(error: unknown): error is LibraryError {
  return typeof error === "object" && error !== null && "summary" in error && "code" in error;
}
