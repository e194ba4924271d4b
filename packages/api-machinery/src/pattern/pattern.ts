import { createPatternMachine } from "./pattern-machine.ts";
import { parsePattern, type CharacterSet, type PatternNode } from "./pattern-syntax.ts";

/** A compiled `pattern` of a schema. */
export interface Pattern {
  /** Whether the pattern matches anywhere in `text`. */
  test(text: string): boolean;
}

const cache = new Map<string, Pattern | SyntaxError>();
const cacheLimit = 4096;

/**
 * How long a text may be for JavaScript's own engine, which backtracks, by the number of open repetitions that the pattern
 * has on one way through it: so many nested loops it may come to.
 */
const backtrackingLimits = [4096, 2048, 256, 96, 48];

/**
 * Compiles a `pattern` of a schema, which is a regular expression in Go's syntax (RE2), and keeps it, so that asking again
 * costs a lookup.
 *
 * **Guarantees**: a test takes time in proportion to the text; no pattern and no text make it take exponentially long.
 *
 * **Errors**: throws a `SyntaxError` in the words of Go's `regexp.Compile` where the pattern is none.
 */
export function compilePattern(source: string): Pattern {
  let compiled = cache.get(source);
  if (compiled === undefined) {
    // A flood of CRDs with ever new patterns must not grow the cache without bound.
    if (cache.size >= cacheLimit) cache.clear();
    compiled = compile(source);
    cache.set(source, compiled);
  }
  if (compiled instanceof SyntaxError) throw compiled;
  return compiled;
}

function compile(source: string): Pattern | SyntaxError {
  let tree: PatternNode;
  try {
    tree = parsePattern(source);
    if (size(tree) > 20_000) return new SyntaxError("error parsing regexp: expression too large");
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
  let machine: ((text: string) => boolean) | undefined;
  const limit = backtrackingLimits[openRepetitions(tree, false) + (isAnchored(tree) ? 0 : 1)] ?? 0;
  const native = limit > 0 ? new RegExp(toJavaScript(tree), "u") : undefined;
  return {
    test(text) {
      if (native && text.length <= limit) return native.test(text);
      machine ??= createPatternMachine(tree);
      return machine(text);
    },
  };
}

/** How many instructions the tree comes to. */
function size(node: PatternNode): number {
  switch (node.kind) {
    case "repeat":
      return 1 + size(node.node) * (node.max === Infinity ? node.min + 1 : Math.max(node.max, 1));
    case "sequence":
    case "choice":
      return node.nodes.reduce((sum, child) => sum + size(child), 1);
    default:
      return 1;
  }
}

/** How many open repetitions one way through the pattern has at most; endless where one is inside of another. */
function openRepetitions(node: PatternNode, isRepeated: boolean): number {
  switch (node.kind) {
    case "repeat": {
      if (node.max <= 1) return openRepetitions(node.node, isRepeated);
      if (isRepeated) return Infinity;
      const isOpen = node.max === Infinity || node.node.kind !== "set";
      return openRepetitions(node.node, true) + (isOpen ? 1 : 0);
    }
    case "choice":
      if (isRepeated) return Infinity;
      return node.nodes.reduce((most, child) => Math.max(most, openRepetitions(child, false)), 0);
    case "sequence":
      return node.nodes.reduce((sum, child) => sum + openRepetitions(child, isRepeated), 0);
    default:
      return 0;
  }
}

function isAnchored(node: PatternNode): boolean {
  const first = node.kind === "sequence" ? node.nodes[0] : node;
  return first?.kind === "assert" && first.at === "begin";
}

function toJavaScript(node: PatternNode): string {
  switch (node.kind) {
    case "set":
      return setToJavaScript(node.set);
    case "assert":
      return assertions[node.at];
    case "sequence":
      return node.nodes.map((child) => (child.kind === "choice" ? `(?:${toJavaScript(child)})` : toJavaScript(child))).join("");
    case "choice":
      return node.nodes.map(toJavaScript).join("|");
    case "repeat":
      return `(?:${toJavaScript(node.node)}){${node.min},${node.max === Infinity ? "" : node.max}}`;
  }
}

const assertions = {
  begin: "(?<![^])",
  end: "(?![^])",
  beginLine: "(?<![^\\n])",
  endLine: "(?![^\\n])",
  word: "\\b",
  notWord: "\\B",
} as const;

function setToJavaScript(set: CharacterSet): string {
  const point = (code: number) => `\\u{${code.toString(16)}}`;
  const ranges = set.ranges.map(([low, high]) => (low === high ? point(low) : `${point(low)}-${point(high)}`));
  const properties = set.properties.map(({ name, negated }) => `\\${negated ? "P" : "p"}{${name}}`);
  return `[${set.negated ? "^" : ""}${ranges.join("")}${properties.join("")}]`;
}
