import { type Token, tokenize } from "./lexer.ts";
import type { Command, Node, Operand, Pipe, Template } from "./nodes.ts";
import { type Position, TemplateError } from "./template-error.ts";
import { isFunction } from "./functions.ts";

const maxDepth = 100;
const maxSourceLength = 262_144;

type End = "end" | "else" | "eof";

/**
 * Parses a template in the syntax of Go's text/template and Helm.
 *
 * **Errors**: a {@link TemplateError} with line and column, also for unknown functions.
 */
export function parseTemplate(name: string, source: string): Template {
  if (source.length > maxSourceLength) {
    throw new TemplateError("Limit", name, { line: 1, column: 1 }, `must be at most ${maxSourceLength} characters`);
  }
  const tokens = tokenize(name, source);
  const defined = new Map<string, readonly Node[]>();
  let index = 0;
  let loops = 0;
  let depth = 0;
  const names: string[][] = [["$"]];

  const { nodes } = list(["eof"], undefined);
  return { name, body: nodes, defined };

  function peek(): Token {
    return tokens[Math.min(index, tokens.length - 1)] as Token;
  }
  function next(): Token {
    const token = peek();
    index += 1;
    return token;
  }
  function fail(at: Position, message: string): never {
    throw new TemplateError("Syntax", name, at, message);
  }
  function isWord(token: Token, ...words: readonly string[]): boolean {
    return token.kind === "word" && words.includes(token.text);
  }
  function close(): void {
    const token = next();
    if (token.kind !== "close") fail(token.at, `unexpected ${JSON.stringify(token.text)}, expected }}`);
  }
  function nested<T>(at: Position, inner: () => T): T {
    if (++depth > maxDepth) fail(at, `nesting deeper than ${maxDepth}`);
    names.push([]);
    try {
      return inner();
    } finally {
      depth -= 1;
      names.pop();
    }
  }

  /** Parses nodes up to their end. The ending action is consumed, except for what follows `else`. */
  function list(ends: readonly End[], opened: Position | undefined): { nodes: Node[]; end: End } {
    const nodes: Node[] = [];
    for (;;) {
      const token = next();
      if (token.kind === "text") nodes.push({ kind: "text", text: token.text });
      else if (token.kind === "end") {
        if (!ends.includes("eof")) fail(opened ?? token.at, "missing {{end}}");
        return { nodes, end: "eof" };
      } else {
        const first = peek();
        if (isWord(first, "end", "else")) {
          if (!ends.includes(first.text as End)) fail(first.at, `unexpected {{${first.text}}}`);
          next();
          if (first.text === "end") close();
          return { nodes, end: first.text as End };
        }
        const node = action();
        if (node !== undefined) nodes.push(node);
      }
    }
  }

  function action(): Node | undefined {
    const first = peek();
    if (first.kind === "word") {
      switch (first.text) {
        case "if":
        case "with":
        case "range":
          next();
          return branch(first.text, first.at);
        case "break":
        case "continue":
          next();
          if (loops === 0) fail(first.at, `{{${first.text}}} outside of a range`);
          close();
          return { kind: first.text, at: first.at };
        case "define":
        case "block": {
          next();
          const title = templateName();
          const pipe = first.text === "block" ? pipeline() : undefined;
          close();
          if (first.text === "define" && depth > 0) fail(first.at, "{{define}} must be at the top level");
          if (defined.has(title)) fail(first.at, `template ${JSON.stringify(title)} must be unique`);
          const outer = loops;
          loops = 0;
          const outerNames = names.splice(0, names.length, ["$"]);
          const { nodes } = nested(first.at, () => list(["end"], first.at));
          names.splice(0, names.length, ...outerNames);
          loops = outer;
          defined.set(title, nodes);
          return pipe && { kind: "template", name: title, pipe, at: first.at };
        }
        case "template": {
          next();
          const title = templateName();
          const pipe = peek().kind === "close" ? undefined : pipeline();
          close();
          return { kind: "template", name: title, pipe, at: first.at };
        }
      }
    }
    const pipe = pipeline();
    close();
    return { kind: "action", pipe, at: first.at };
  }

  function branch(kind: "if" | "with" | "range", at: Position): Node {
    return nested(at, () => {
      const pipe = pipeline(kind === "range");
      close();
      if (kind === "range") loops += 1;
      const { nodes: body, end } = list(["end", "else"], at);
      if (kind === "range") loops -= 1;
      let otherwise: readonly Node[] = [];
      if (end === "else") {
        const follow = peek();
        if (kind !== "range" && isWord(follow, "if", "with")) {
          next();
          // `{{else if}}` shares the `{{end}}` of the outer branch.
          otherwise = [branch(follow.text as "if" | "with", follow.at)];
        } else {
          close();
          otherwise = list(["end"], at).nodes;
        }
      }
      return { kind, pipe, body, otherwise };
    });
  }

  function templateName(): string {
    const token = next();
    if (token.kind !== "string") fail(token.at, "the name of a template must be a string");
    return token.text;
  }

  function pipeline(isRange = false): Pipe {
    const { at } = peek();
    const variables: string[] = [];
    let isAssignment = false;
    const ahead = tokens[index + 1];
    if (peek().kind === "variable" && (ahead?.text === ":=" || ahead?.text === "=" || (ahead?.text === "," && isRange))) {
      variables.push(next().text);
      if (peek().text === ",") {
        next();
        const second = next();
        if (second.kind !== "variable") fail(second.at, "expected a variable after the comma");
        variables.push(second.text);
      }
      const sign = next();
      if (sign.text !== ":=" && sign.text !== "=") fail(sign.at, "expected :=");
      isAssignment = sign.text === "=";
      for (const variable of isAssignment ? variables : []) requireVariable(variable, at);
    }
    const commands = [command()];
    while (peek().text === "|" && peek().kind === "mark") {
      next();
      const following = command();
      if (following.operands[0]?.kind !== "function") fail(following.at, "expected a function after |");
      commands.push(following);
    }
    if (!isAssignment) names.at(-1)?.push(...variables);
    return { at, variables, isAssignment, commands };
  }

  function command(): Command {
    const { at } = peek();
    const operands: Operand[] = [];
    for (;;) {
      const token = peek();
      if (token.kind === "close" || token.kind === "end" || (token.kind === "mark" && [")", "|"].includes(token.text))) break;
      if (operands.length > 0 && !token.isApart) fail(token.at, `missing white space before ${JSON.stringify(token.text)}`);
      operands.push(operand());
    }
    const [first] = operands;
    if (first === undefined) fail(at, "missing value");
    if (operands.length > 1 && first.kind !== "function") fail(at, "not a function, so it cannot have arguments");
    return { at, operands };
  }

  function operand(): Operand {
    const token = next();
    const { at } = token;
    switch (token.kind) {
      case "string":
        return { kind: "literal", value: token.text, fields: [], at };
      case "number":
        return { kind: "literal", value: Number(token.text), fields: [], at };
      case "variable":
        requireVariable(token.text, at);
        return { kind: "variable", name: token.text, fields: fields(), at };
      case "field":
        return { kind: "dot", fields: [token.text.slice(1), ...fields()], at };
      case "word":
        if (token.text === "true" || token.text === "false") {
          return { kind: "literal", value: token.text === "true", fields: [], at };
        }
        if (token.text === "nil") return { kind: "literal", value: null, fields: [], at };
        if (!isFunction(token.text)) fail(at, `function ${JSON.stringify(token.text)} not found`);
        return { kind: "function", name: token.text, fields: [], at };
      case "mark":
        if (token.text === ".") return { kind: "dot", fields: [], at };
        if (token.text === "(") {
          if (++depth > maxDepth) fail(at, `nesting deeper than ${maxDepth}`);
          const pipe = pipeline();
          depth -= 1;
          const end = next();
          if (end.text !== ")") fail(end.at, "expected )");
          return { kind: "pipe", pipe, fields: fields(), at };
        }
    }
    return fail(at, `unexpected ${JSON.stringify(token.text)}`);
  }

  function requireVariable(variable: string, at: Position): void {
    if (!names.some((scope) => scope.includes(variable))) fail(at, `variable ${variable} not defined`);
  }

  function fields(): string[] {
    const found: string[] = [];
    while (peek().kind === "field" && !peek().isApart) found.push(next().text.slice(1));
    return found;
  }
}
