import { createRequire } from "node:module";
import type * as re2js from "re2js";

/** A compiled regular expression. */
export interface Pattern {
  /** Reports whether the pattern matches anywhere in `text`. */
  test(text: string): boolean;
  /** Returns the successive matches in `text`, at most `limit` of them (default: all). */
  find(text: string, limit?: number): string[];
}

/** Compiled patterns by source. Bounded: CRDs with ever new patterns must not grow it. */
const compiled = new Map<string, Pattern | SyntaxError>();
const maxCompiled = 4096;

/**
 * Compiles a regular expression in Go's syntax (RE2), as used by `pattern` in schemas and `matches` in CEL. Compiling the same
 * source again is a lookup.
 *
 * **Guarantees**: matching takes time linear in the length of the text, whatever the pattern.
 *
 * **Errors**: a `SyntaxError` with the message of Go's `regexp.Compile` if the pattern is invalid.
 */
export function compilePattern(source: string): Pattern {
  let pattern = compiled.get(source);
  if (pattern === undefined) {
    if (compiled.size >= maxCompiled) compiled.clear();
    pattern = compile(source);
    compiled.set(source, pattern);
  }
  if (pattern instanceof SyntaxError) throw pattern;
  return pattern;
}

function compile(source: string): Pattern | SyntaxError {
  const { RE2JS, RE2JSSyntaxException } = loadEngine();
  try {
    const expression = RE2JS.compile(source);
    return {
      test: (text) => expression.test(text),
      find(text, limit = Number.POSITIVE_INFINITY) {
        const found: string[] = [];
        const matcher = expression.matcher(text);
        while (found.length < limit && matcher.find()) found.push(matcher.group() ?? "");
        return found;
      },
    };
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) return new SyntaxError(error.message, { cause: error });
    throw error;
  }
}

let engine: typeof re2js | undefined;

/** Loads the library on first use: controllers never match a pattern, and validation is synchronous. */
function loadEngine(): typeof re2js {
  engine ??= createRequire(import.meta.url)("re2js") as typeof re2js;
  return engine;
}
