import { type Token, tokenize } from "./lexer.ts";
import type { Node, Template } from "./nodes.ts";
import { PipelineParser } from "./parse-pipeline.ts";
import { type Position, TemplateError } from "./template-error.ts";

/** Default maximum length of a template in characters. Parsing one takes a few milliseconds. */
const defaultMaxLength = 32_768;

type End = "end" | "else" | "eof";

/**
 * Parses a template in the syntax of Go's text/template and Helm. `maxLength` is in characters.
 *
 * **Errors**: a {@link TemplateError} with line and column, including for unknown functions.
 */
export function parseTemplate(name: string, source: string, maxLength = defaultMaxLength): Template {
  if (source.length > maxLength) {
    throw new TemplateError("Limit", name, { line: 1, column: 1 }, `must be at most ${maxLength} characters`);
  }
  return new TemplateParser(name, tokenize(name, source)).parse();
}

class TemplateParser {
  readonly #name: string;
  readonly #tokens: PipelineParser;
  readonly #defined = new Map<string, readonly Node[]>();
  /** Number of ranges around the current action. */
  #loops = 0;

  constructor(name: string, tokens: readonly Token[]) {
    this.#name = name;
    this.#tokens = new PipelineParser(name, tokens);
  }

  parse(): Template {
    const { nodes } = this.#list(["eof"], undefined);
    return { name: this.#name, body: nodes, defined: this.#defined };
  }

  /** Parses nodes up to their end. The ending action is consumed, except for what follows `else`. */
  #list(ends: readonly End[], opened: Position | undefined): { readonly nodes: readonly Node[]; readonly end: End } {
    const tokens = this.#tokens;
    const nodes: Node[] = [];
    for (;;) {
      const token = tokens.next();
      if (token.kind === "text") nodes.push({ kind: "text", text: token.text });
      else if (token.kind === "end") {
        if (!ends.includes("eof")) tokens.fail(opened ?? token.at, "missing {{end}}");
        return { nodes, end: "eof" };
      } else {
        const first = tokens.peek();
        if (isWord(first, "end", "else")) {
          if (!ends.includes(first.text as End)) tokens.fail(first.at, `unexpected {{${first.text}}}`);
          tokens.next();
          if (first.text === "end") tokens.close();
          return { nodes, end: first.text as End };
        }
        const node = this.#action();
        if (node !== undefined) nodes.push(node);
      }
    }
  }

  #action(): Node | undefined {
    const tokens = this.#tokens;
    const first = tokens.peek();
    switch (first.kind === "word" ? first.text : undefined) {
      case "if":
      case "with":
      case "range":
        tokens.next();
        return this.#branch(first.text as "if" | "with" | "range", first.at);
      case "break":
      case "continue":
        tokens.next();
        if (this.#loops === 0) tokens.fail(first.at, `{{${first.text}}} outside a range`);
        tokens.close();
        return { kind: first.text as "break" | "continue", at: first.at };
      case "define":
      case "block":
        return this.#definition();
      case "template": {
        tokens.next();
        const name = tokens.templateName();
        const pipe = tokens.peek().kind === "close" ? undefined : tokens.pipeline();
        tokens.close();
        return { kind: "template", name, pipe, at: first.at };
      }
    }
    const pipe = tokens.pipeline();
    tokens.close();
    return { kind: "action", pipe, at: first.at };
  }

  /** Parses `{{define}}`, or `{{block}}`, which also calls what it defines. */
  #definition(): Node | undefined {
    const tokens = this.#tokens;
    const { at, text } = tokens.next();
    const name = tokens.templateName();
    const pipe = text === "block" ? tokens.pipeline() : undefined;
    tokens.close();
    if (text === "define" && !tokens.isTopLevel) tokens.fail(at, "{{define}} must be at the top level");
    if (this.#defined.has(name)) tokens.fail(at, `template ${JSON.stringify(name)} must be unique`);
    const loops = this.#loops;
    this.#loops = 0;
    const { nodes } = tokens.isolated(at, () => this.#list(["end"], at));
    this.#loops = loops;
    this.#defined.set(name, nodes);
    return pipe && { kind: "template", name, pipe, at };
  }

  #branch(kind: "if" | "with" | "range", at: Position): Node {
    const tokens = this.#tokens;
    return tokens.nested(at, () => {
      const pipe = tokens.pipeline(kind === "range");
      tokens.close();
      if (kind === "range") this.#loops += 1;
      const { nodes: body, end } = this.#list(["end", "else"], at);
      if (kind === "range") this.#loops -= 1;
      return { kind, pipe, body, otherwise: end === "else" ? this.#otherwise(kind, at) : [] };
    });
  }

  #otherwise(kind: "if" | "with" | "range", at: Position): readonly Node[] {
    const tokens = this.#tokens;
    const follow = tokens.peek();
    if (kind !== "range" && isWord(follow, "if", "with")) {
      tokens.next();
      // `{{else if}}` shares the `{{end}}` of the outer branch.
      return [this.#branch(follow.text as "if" | "with", follow.at)];
    }
    tokens.close();
    return this.#list(["end"], at).nodes;
  }
}

function isWord(token: Token, ...words: readonly string[]): boolean {
  return token.kind === "word" && words.includes(token.text);
}
