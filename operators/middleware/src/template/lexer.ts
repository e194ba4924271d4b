import { type Position, TemplateError } from "./template-error.ts";

/** A token of an action, or the text between two actions. */
export interface Token {
  readonly kind: "text" | "open" | "close" | "word" | "field" | "variable" | "string" | "number" | "mark" | "end";
  readonly text: string;
  readonly at: Position;
  /** Whether white space precedes the token: `.a .b` are two operands, `.a.b` is one. */
  readonly isApart: boolean;
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0" };

/**
 * Splits a template into tokens. `{{-` and `-}}` trim adjacent white space; comments are dropped.
 *
 * **Errors**: a {@link TemplateError} with the position of an unterminated action, string or comment, or of an unexpected
 * character.
 */
export function tokenize(name: string, source: string): readonly Token[] {
  return new Lexer(name, source).read();
}

/** Tokens within an action, except for strings. */
const wordPattern =
  /^(?:(?<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))(?![\w.])|(?<variable>\$[\p{L}\p{N}_]*)|(?<field>\.[\p{L}_][\p{L}\p{N}_]*)|(?<word>[\p{L}_][\p{L}\p{N}_]*)|(?<mark>:=|=|\||\(|\)|,|\.))/u;

/** Number of characters that are searched for a token other than a string. */
const maxTokenLength = 4096;

class Lexer {
  readonly #name: string;
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #offset = 0;
  #line = 1;
  #column = 1;

  constructor(name: string, source: string) {
    this.#name = name;
    this.#source = source;
  }

  read(): readonly Token[] {
    let trimsNext = false;
    while (this.#offset < this.#source.length) {
      const open = this.#source.indexOf("{{", this.#offset);
      const isTrimmed = open >= 0 && this.#source[open + 2] === "-" && /\s/.test(this.#source[open + 3] ?? "");
      this.#readText(open < 0 ? this.#source.length : open, { start: trimsNext, end: isTrimmed });
      if (open < 0) break;
      const start = this.#at;
      this.#move(isTrimmed ? 3 : 2);
      const comment = /^\s*\/\*/.exec(this.#source.slice(this.#offset));
      if (comment) trimsNext = this.#skipComment(start, comment[0].length);
      else {
        this.#push("open", "{{", start);
        trimsNext = this.#readAction();
      }
    }
    this.#push("end", "", this.#at);
    return this.#tokens;
  }

  get #at(): Position {
    return { line: this.#line, column: this.#column };
  }

  /** Consumes characters. */
  #move(length: number): string {
    const text = this.#source.slice(this.#offset, this.#offset + length);
    for (const char of text) {
      if (char === "\n") {
        this.#line += 1;
        this.#column = 1;
      } else this.#column += 1;
    }
    this.#offset += length;
    return text;
  }

  #fail(at: Position, message: string): never {
    throw new TemplateError("Syntax", this.#name, at, message);
  }

  #push(kind: Token["kind"], text: string, at: Position, isApart = false): void {
    this.#tokens.push({ kind, text, at, isApart });
  }

  /** Reads the text before the next action. */
  #readText(end: number, trims: { readonly start: boolean; readonly end: boolean }): void {
    const at = this.#at;
    let text = this.#move(end - this.#offset);
    if (trims.start) text = text.trimStart();
    if (trims.end) text = text.trimEnd();
    if (text !== "") this.#push("text", text, at);
  }

  /** Skips an action that is a comment. Returns whether it trims the white space after it. */
  #skipComment(start: Position, openLength: number): boolean {
    const end = this.#source.indexOf("*/", this.#offset + openLength);
    if (end < 0) this.#fail(start, "unterminated comment");
    this.#move(end + 2 - this.#offset);
    const close = /^\s*?(\s-)?}}/.exec(this.#source.slice(this.#offset));
    if (close === null) this.#fail(start, "an action with a comment must not contain anything else");
    this.#move(close[0].length);
    return close[1] !== undefined;
  }

  /** Reads an action. Returns whether it trims the white space after it. */
  #readAction(): boolean {
    const start = this.#at;
    for (;;) {
      const space = /^\s+/.exec(this.#source.slice(this.#offset, this.#offset + maxTokenLength))?.[0] ?? "";
      const isApart = this.#move(space.length) !== "";
      const rest = this.#source.slice(this.#offset, this.#offset + maxTokenLength);
      const at = this.#at;
      if (rest === "") this.#fail(start, "unterminated action: missing }}");
      const isTrimming = isApart && rest.startsWith("-}}");
      if (isTrimming || rest.startsWith("}}")) {
        this.#move(isTrimming ? 3 : 2);
        this.#push("close", "}}", at, isApart);
        return isTrimming;
      }
      this.#readToken(rest, at, isApart);
    }
  }

  #readToken(rest: string, at: Position, isApart: boolean): void {
    if (rest.startsWith('"')) return this.#push("string", this.#quoted(at), at, isApart);
    if (rest.startsWith("`")) {
      const end = this.#source.indexOf("`", this.#offset + 1);
      if (end < 0) this.#fail(at, "unterminated raw string");
      return this.#push("string", this.#move(end + 1 - this.#offset).slice(1, -1), at, isApart);
    }
    const groups = Object.entries(wordPattern.exec(rest)?.groups ?? {});
    const [kind, found] = groups.find(([, value]) => value !== undefined) ?? [];
    if (kind === undefined || found === undefined) this.#fail(at, `unexpected ${JSON.stringify([...rest][0])} in an action`);
    this.#push(kind as Token["kind"], this.#move(found.length), at, isApart);
  }

  #quoted(at: Position): string {
    this.#move(1);
    let text = "";
    for (;;) {
      const char = this.#move(1);
      if (char === "" || char === "\n") this.#fail(at, "unterminated string");
      if (char === '"') return text;
      if (char !== "\\") {
        text += char;
        continue;
      }
      const escape = this.#move(1);
      if (escape === "u" || escape === "x") {
        const digits = this.#move(escape === "u" ? 4 : 2);
        if (!/^[0-9a-fA-F]+$/.test(digits)) this.#fail(at, `bad escape \\${escape}${digits} in a string`);
        text += String.fromCharCode(Number.parseInt(digits, 16));
      } else text += escapes[escape] ?? this.#fail(at, `bad escape \\${escape} in a string`);
    }
  }
}
