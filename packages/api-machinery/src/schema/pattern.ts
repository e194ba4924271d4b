import { createPatternMachine } from "./pattern-machine.ts";
import { parsePattern, type CharacterSet, type PatternNode } from "./pattern-syntax.ts";

/** A compiled `pattern` of a schema. */
export interface Pattern {
  /** Whether the pattern matches anywhere in `text`. */
  test(text: string): boolean;
}

const cache = new Map<string, Pattern | SyntaxError>();
const cacheLimit = 4096;

/** Above this many characters a pattern never runs on JavaScript's own engine, which backtracks. */
const backtrackingLimit = 512;

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
  const native = isSafeToBacktrack(tree) ? new RegExp(toJavaScript(tree), "u") : undefined;
  return {
    test(text) {
      if (native && text.length <= backtrackingLimit) return native.test(text);
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

/** With at most two repetitions of open or large count, none of them in another one, backtracking is at worst cubic. */
function isSafeToBacktrack(tree: PatternNode): boolean {
  let open = 0;
  const visit = (node: PatternNode, repeated: boolean): boolean => {
    switch (node.kind) {
      case "repeat": {
        if (node.max <= 1) return visit(node.node, repeated);
        if (repeated) return false;
        if (node.max === Infinity || node.node.kind !== "set") open++;
        return visit(node.node, true);
      }
      case "choice":
        return !repeated && node.nodes.every((child) => visit(child, repeated));
      case "sequence":
        return node.nodes.every((child) => visit(child, repeated));
      default:
        return true;
    }
  };
  return visit(tree, false) && open <= 2;
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
