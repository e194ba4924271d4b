import { memberOf } from "./cel-text.ts";
import { callOf } from "./jmespath-functions.ts";
import { type Token, tokensOf } from "./jmespath-tokens.ts";
import { ConversionError } from "./problem-list.ts";

/** Variables of an expression: CEL by name, without `$`. */
export type Variables = ReadonlyMap<string, string>;

/** Where an expression is evaluated. */
export interface ExpressionScope {
  readonly variables: Variables;
  /** CEL of the current value (`@`). Undefined: there is none. */
  readonly root: string | undefined;
}

/**
 * Converts the part of JMESPath that has a counterpart in CEL: fields, indexes, literals, comparisons, logic, arithmetic, common functions.
 *
 * **Errors**: a {@link ConversionError} for projections, filters and everything else.
 */
export function jmesPathToCel(source: string, scope: ExpressionScope): string {
  const parser = new Parser(source, scope);
  return parser.parse();
}

/** Operators by binding power, from the weakest. */
const operators: readonly (readonly string[])[] = [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">="], ["+", "-"], ["*", "/"]];

class Parser {
  readonly #tokens: readonly Token[];
  readonly #source: string;
  readonly #scope: ExpressionScope;
  #at = 0;

  constructor(source: string, scope: ExpressionScope) {
    this.#source = source;
    this.#scope = scope;
    this.#tokens = tokensOf(source);
  }

  parse(): string {
    const result = this.#binary(0);
    if (this.#at < this.#tokens.length) throw this.#unsupported();
    return result;
  }

  #binary(level: number): string {
    const here = operators[level];
    if (here === undefined) return this.#unary();
    let left = this.#binary(level + 1);
    for (;;) {
      const operator = here.find((each) => this.#accepts("operator", each));
      if (operator === undefined) return left;
      left = `${left} ${operator} ${this.#binary(level + 1)}`;
    }
  }

  #unary(): string {
    if (this.#accepts("operator", "!")) return `!(${this.#unary()})`;
    return this.#postfix(this.#primary());
  }

  #postfix(start: string): string {
    let value = start;
    for (;;) {
      if (this.#accepts("symbol", ".")) {
        const name = this.#next("name");
        if (name === undefined) throw this.#unsupported();
        value = memberOf(value, name);
      } else if (this.#accepts("symbol", "[")) {
        const index = this.#next("number");
        if (index === undefined || index.startsWith("-") || !this.#accepts("symbol", "]")) throw this.#unsupported();
        value = `${value}[${index}]`;
      } else return value;
    }
  }

  #primary(): string {
    const token = this.#tokens[this.#at++];
    switch (token?.kind) {
      case "literal":
        return token.cel;
      case "variable":
        return this.#variable(token.text);
      case "name":
        return this.#accepts("symbol", "(") ? callOf(token.text, this.#list(")")) : memberOf(this.#root(), token.text);
      case "symbol":
        if (token.text === "@") return this.#root();
        if (token.text === "[") return `[${this.#list("]").join(", ")}]`;
        if (token.text === "(") {
          const inner = this.#binary(0);
          if (this.#accepts("symbol", ")")) return `(${inner})`;
        }
        throw this.#unsupported();
      case undefined:
      case "number":
      case "operator":
        throw this.#unsupported();
    }
  }

  #list(end: string): readonly string[] {
    const values: string[] = [];
    if (this.#accepts("symbol", end)) return values;
    for (;;) {
      values.push(this.#binary(0));
      if (this.#accepts("symbol", end)) return values;
      if (!this.#accepts("symbol", ",")) throw this.#unsupported();
    }
  }

  #variable(name: string): string {
    const value = this.#scope.variables.get(name);
    if (value === undefined) throw new ConversionError(`(${this.#source}): $${name} is not available`);
    return value;
  }

  #root(): string {
    if (this.#scope.root === undefined)
      throw new ConversionError(`(${this.#source}): reads the current value, which is not available`);
    return this.#scope.root;
  }

  #accepts(kind: Token["kind"], text: string): boolean {
    const token = this.#tokens[this.#at];
    if (token?.kind !== kind || token.text !== text) return false;
    this.#at++;
    return true;
  }

  #next(kind: Token["kind"]): string | undefined {
    const token = this.#tokens[this.#at];
    if (token?.kind !== kind) return undefined;
    this.#at++;
    return token.text;
  }

  #unsupported(): ConversionError {
    return new ConversionError(`(${this.#source}): this JMESPath has no counterpart in CEL; write the expression by hand`);
  }
}
