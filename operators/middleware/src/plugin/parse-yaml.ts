import { isScalar, Lexer, LineCounter, parseDocument, visit } from "yaml";
import { runSteps, type Steps } from "./steps.ts";

/** The parser is recursive. */
const maxFlowDepth = 64;

/** Limits the tokens of several texts. */
export interface TokenBudget {
  /** Spends a token. Returns false if none is left. */
  token(): boolean;
}

/** Tokens between two steps. */
const tokensPerStep = 1_000;
/** Tokens of one text with a budget: the parser has no steps. */
const maxTokens = 10_000;

/** Like {@link parseYamlInSteps}, without a pause. */
export function parseYaml(text: string, budget?: TokenBudget): unknown {
  return runSteps(parseYamlInSteps(text, budget));
}

/**
 * Parses YAML in time that is linear in its length, whatever it contains: the parser compares all keys of a map with one another and
 * describes every error, and a text may have thousands of both.
 *
 * **Errors**: an `Error` with the position of the first problem, or if the `budget` is spent or the text is nested too deep.
 */
export function* parseYamlInSteps(text: string, budget?: TokenBudget): Steps<unknown> {
  yield* checkTokens(text, budget);
  const lineCounter = new LineCounter();
  const at = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `at line ${line}, column ${col}`;
  };
  const document = parseDocument(text, { prettyErrors: false, uniqueKeys: false, lineCounter });
  yield;
  const [error] = document.errors;
  if (error !== undefined) throw new Error(`${error.message} ${at(error.pos[0])}`);
  visit(document, {
    Map(_, { items }) {
      const keys = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (keys.has(key.value)) throw new Error(`Map keys must be unique ${at(key.range?.[0] ?? 0)}`);
        keys.add(key.value);
      }
    },
  });
  yield;
  return document.toJS({ maxAliasCount: 100 });
}

function* checkTokens(text: string, budget: TokenBudget | undefined): Steps<void> {
  let depth = 0;
  let count = 0;
  for (const token of new Lexer().lex(text)) {
    if (budget?.token() === false) throw new Error("the plugin takes too long to check: use shorter strings");
    if (token === "[" || token === "{") depth += 1;
    else if (token === "]" || token === "}") depth -= 1;
    if (depth > maxFlowDepth) throw new Error(`must be nested at most ${maxFlowDepth} levels deep`);
    count += 1;
    if (budget !== undefined && count > maxTokens) throw new Error(`must have at most ${maxTokens} tokens of YAML`);
    if (count % tokensPerStep === 0) yield;
  }
}
