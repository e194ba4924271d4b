import { isFunction } from "./functions.ts";
import type { Token } from "./lexer.ts";
import type { Command, Operand, Pipe } from "./nodes.ts";
import { type Position, TemplateError } from "./template-error.ts";

const maxDepth = 100;

/** Parses what follows the keyword of an action: pipelines, and the variables that they define in nested scopes. */
export class PipelineParser {
  readonly #template: string;
  readonly #tokens: readonly Token[];
  #index = 0;
  #depth = 0;
  /** Variables of each scope, the outermost first. */
  #names: string[][] = [["$"]];

  /** `template` is named in errors. */
  constructor(template: string, tokens: readonly Token[]) {
    this.#template = template;
    this.#tokens = tokens;
  }

  /** Whether no action or parenthesis is open. */
  get isTopLevel(): boolean {
    return this.#depth === 0;
  }

  /** The next token. The last one repeats. */
  peek(): Token {
    return this.#tokens[Math.min(this.#index, this.#tokens.length - 1)] as Token;
  }

  /** Consumes the next token. */
  next(): Token {
    const token = this.peek();
    this.#index += 1;
    return token;
  }

  /** Consumes the end of an action. */
  close(): void {
    const token = this.next();
    if (token.kind !== "close") this.fail(token.at, `unexpected ${JSON.stringify(token.text)}, expected }}`);
  }

  fail(at: Position, message: string): never {
    throw new TemplateError("Syntax", this.#template, at, message);
  }

  /** Runs `inner` in its own scope. */
  nested<T>(at: Position, inner: () => T): T {
    this.#names.push([]);
    const result = this.#deeper(at, inner);
    this.#names.pop();
    return result;
  }

  /** Runs `inner` in a scope that sees no variables but `$`, as a defined template does. */
  isolated<T>(at: Position, inner: () => T): T {
    const outer = this.#names;
    this.#names = [["$"]];
    const result = this.nested(at, inner);
    this.#names = outer;
    return result;
  }

  templateName(): string {
    const token = this.next();
    if (token.kind !== "string") this.fail(token.at, "the name of a template must be a string");
    return token.text;
  }

  /** Parses a pipeline with its variables. That of a range can have two. */
  pipeline(isRange = false): Pipe {
    const { at } = this.peek();
    const { variables, isAssignment } = this.#declaration(isRange);
    for (const variable of isAssignment ? variables : []) this.#requireVariable(variable, at);
    const commands = [this.#command()];
    while (this.peek().text === "|" && this.peek().kind === "mark") {
      this.next();
      const following = this.#command();
      if (following.operands[0]?.kind !== "function") this.fail(following.at, "expected a function after |");
      commands.push(following);
    }
    if (!isAssignment) this.#names.at(-1)?.push(...variables);
    return { at, variables, isAssignment, commands };
  }

  #deeper<T>(at: Position, inner: () => T): T {
    if (++this.#depth > maxDepth) this.fail(at, `nesting deeper than ${maxDepth}`);
    const result = inner();
    this.#depth -= 1;
    return result;
  }

  /** Parses `$name :=`, `$name =` or, for a range, `$key, $value :=`. Empty if the pipeline declares none. */
  #declaration(isRange: boolean): Pick<Pipe, "variables" | "isAssignment"> {
    const ahead = this.#tokens[this.#index + 1]?.text ?? "";
    const isDeclaration = [":=", "="].includes(ahead) || (ahead === "," && isRange);
    if (this.peek().kind !== "variable" || !isDeclaration) return { variables: [], isAssignment: false };
    const variables = [this.next().text];
    if (ahead === ",") {
      this.next();
      const second = this.next();
      if (second.kind !== "variable") this.fail(second.at, "expected a variable after the comma");
      variables.push(second.text);
    }
    const sign = this.next();
    if (sign.text !== ":=" && sign.text !== "=") this.fail(sign.at, "expected :=");
    return { variables, isAssignment: sign.text === "=" };
  }

  #command(): Command {
    const { at } = this.peek();
    const operands: Operand[] = [];
    for (;;) {
      const token = this.peek();
      if (token.kind === "close" || token.kind === "end" || (token.kind === "mark" && [")", "|"].includes(token.text))) break;
      if (operands.length > 0 && !token.isApart)
        this.fail(token.at, `missing white space before ${JSON.stringify(token.text)}`);
      operands.push(this.#operand());
    }
    const [first] = operands;
    if (first === undefined) this.fail(at, "missing value");
    if (operands.length > 1 && first.kind !== "function") this.fail(at, "not a function, so it cannot have arguments");
    return { at, operands };
  }

  #operand(): Operand {
    const token = this.next();
    const { at, text } = token;
    switch (token.kind) {
      case "string":
        return { kind: "literal", value: text, fields: [], at };
      case "number":
        return { kind: "literal", value: Number(text), fields: [], at };
      case "variable":
        this.#requireVariable(text, at);
        return { kind: "variable", name: text, fields: this.#fields(), at };
      case "field":
        return { kind: "dot", fields: [text.slice(1), ...this.#fields()], at };
      case "word":
        return this.#word(token);
      case "mark":
        if (text === ".") return { kind: "dot", fields: [], at };
        if (text === "(") return this.#parenthesis(at);
    }
    return this.fail(at, `unexpected ${JSON.stringify(text)}`);
  }

  #word({ text, at }: Token): Operand {
    if (text === "true" || text === "false") return { kind: "literal", value: text === "true", fields: [], at };
    if (text === "nil") return { kind: "literal", value: null, fields: [], at };
    if (!isFunction(text)) this.fail(at, `function ${JSON.stringify(text)} not found`);
    return { kind: "function", name: text, fields: [], at };
  }

  #parenthesis(at: Position): Operand {
    const pipe = this.#deeper(at, () => this.pipeline());
    const end = this.next();
    if (end.text !== ")") this.fail(end.at, "expected )");
    return { kind: "pipe", pipe, fields: this.#fields(), at };
  }

  #requireVariable(variable: string, at: Position): void {
    if (!this.#names.some((scope) => scope.includes(variable))) this.fail(at, `variable ${variable} not defined`);
  }

  #fields(): string[] {
    const found: string[] = [];
    while (this.peek().kind === "field" && !this.peek().isApart) found.push(this.next().text.slice(1));
    return found;
  }
}
