import { CelError } from "./cel-error.ts";
import { messageAt } from "./compile-error.ts";

/**
 * Rewrites the construction of objects by type name, which cel-js cannot parse, to calls on maps: `Object.spec{replicas: 3}` becomes
 * `f({"replicas": 3})`, where `functionOf` names the function of the type. Optional fields (`?name: value`) keep their question mark in
 * the key.
 *
 * **Errors**: a {@link CelError} with cel-go's message if a literal is not well-formed. Errors outside literals are left to the parser.
 */
export function rewriteObjectLiterals(expression: string, functionOf: (typeName: string) => string): string {
  return new LiteralRewriter(expression, functionOf).rewrite();
}

interface Token {
  readonly kind: "blank" | "text" | "name" | "quoted-name" | "symbol";
  readonly text: string;
  readonly offset: number;
}

const tokenPattern =
  /(?<blank>\s+|\/\/[^\n]*)|(?<text>[rRbB]{0,2}(?:"""(?:\\[^]|[^\\])*?"""|'''(?:\\[^]|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))|(?<name>[A-Za-z_]\w*)|`(?<quoted>[^`\n]+)`|[^]/g;

function tokensOf(expression: string): readonly Token[] {
  return [...expression.matchAll(tokenPattern)].map(({ 0: text, index: offset, groups }) => {
    if (groups?.["blank"] !== undefined) return { kind: "blank", text, offset };
    if (groups?.["text"] !== undefined) return { kind: "text", text, offset };
    if (groups?.["name"] !== undefined) return { kind: "name", text, offset };
    if (groups?.["quoted"] !== undefined) return { kind: "quoted-name", text: groups["quoted"], offset };
    return { kind: "symbol", text, offset };
  });
}

const closing: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** The nesting that the parser accepts. */
const maxDepth = 100;

class LiteralRewriter {
  readonly #expression: string;
  readonly #functionOf: (typeName: string) => string;
  readonly #tokens: readonly Token[];
  #index = 0;
  #depth = 0;

  constructor(expression: string, functionOf: (typeName: string) => string) {
    this.#expression = expression;
    this.#functionOf = functionOf;
    this.#tokens = tokensOf(expression);
  }

  rewrite(): string {
    let result = this.#copyUntil([]);
    // Unbalanced brackets are copied, so that the parser reports them.
    while (this.#index < this.#tokens.length) result += this.#take()?.text + this.#copyUntil([]);
    return result;
  }

  /** Copies tokens up to one of `ends`, or to the end of a bracket that was opened before. */
  #copyUntil(ends: readonly string[]): string {
    let result = "";
    let isMember = false;
    for (let token = this.#peek(); token !== undefined; token = this.#peek()) {
      if (token.kind === "symbol" && (ends.includes(token.text) || /[)\]}]/.test(token.text))) break;
      const typeName = token.kind === "name" && !isMember ? this.#takeTypeName() : undefined;
      if (typeName !== undefined) {
        result += this.#literal(typeName);
      } else {
        this.#index++;
        result += token.kind === "quoted-name" ? `\`${token.text}\`` : token.text;
        const end = token.kind === "symbol" ? closing[token.text] : undefined;
        if (end !== undefined && this.#depth < maxDepth) result += this.#bracket(end);
      }
      if (token.kind !== "blank") isMember = token.text === ".";
    }
    return result;
  }

  #bracket(end: string): string {
    this.#depth++;
    const content = this.#copyUntil([end]);
    this.#depth--;
    return this.#peek()?.text === end ? `${content}${this.#take()?.text}` : content;
  }

  /** Takes `Object`, `Object.spec`, `JSONPatch` and the brace after it; undefined if the next tokens are something else. */
  #takeTypeName(): string | undefined {
    const start = this.#index;
    const names: string[] = [];
    for (;;) {
      const token = this.#takeSignificant();
      if (token?.kind !== "name") break;
      names.push(token.text);
      const next = this.#takeSignificant();
      if (next?.text === "{" && (names[0] === "Object" || names.join(".") === "JSONPatch")) return names.join(".");
      if (next?.text !== ".") break;
    }
    this.#index = start;
    return undefined;
  }

  #literal(typeName: string): string {
    if (this.#depth >= maxDepth) throw new CelError("ParseError", `expression recursion limit exceeded: ${maxDepth}`);
    const fields: string[] = [];
    let isFirst = true;
    for (;;) {
      let token = this.#takeSignificant();
      if (token?.text === "," && !isFirst) token = this.#takeSignificant();
      else if (token?.text !== "}" && !isFirst) throw this.#mismatch(token, "{'}', ','}");
      if (token?.text === "}") break;
      isFirst = false;
      const isOptional = token?.text === "?";
      if (isOptional) token = this.#takeSignificant();
      if (token?.kind !== "name" && token?.kind !== "quoted-name") {
        throw this.#mismatch(
          token,
          isOptional ? "{IDENTIFIER, ESC_IDENTIFIER}" : "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
        );
      }
      const colon = this.#takeSignificant();
      if (colon?.text !== ":") throw this.#mismatch(colon, "':'");
      this.#depth++;
      const value = this.#copyUntil([",", "}"]);
      this.#depth--;
      fields.push(`${JSON.stringify((isOptional ? "?" : "") + token.text)}: ${value}`);
    }
    return `${this.#functionOf(typeName)}({${fields.join(", ")}})`;
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#index];
  }

  #take(): Token | undefined {
    return this.#tokens[this.#index++];
  }

  #takeSignificant(): Token | undefined {
    let token = this.#take();
    while (token?.kind === "blank") token = this.#take();
    return token;
  }

  #mismatch(token: Token | undefined, expected: string): CelError {
    const input = token === undefined ? "<EOF>" : token.text;
    const offset = token?.offset ?? this.#expression.length;
    const message = `Syntax error: mismatched input '${input}' expecting ${expected}`;
    return new CelError("ParseError", messageAt(this.#expression, offset, message));
  }
}
