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
  const tokens: Token[] = [];
  let offset = 0;
  let line = 1;
  let column = 1;
  const at = (): Position => ({ line, column });
  const move = (length: number): string => {
    const text = source.slice(offset, offset + length);
    for (const char of text) {
      if (char === "\n") {
        line += 1;
        column = 1;
      } else column += 1;
    }
    offset += length;
    return text;
  };
  const fail = (place: Position, message: string): never => {
    throw new TemplateError("Syntax", name, place, message);
  };
  const push = (kind: Token["kind"], text: string, place: Position, isApart = false): void => {
    tokens.push({ kind, text, at: place, isApart });
  };

  let trimsNext = false;
  while (offset < source.length) {
    const open = source.indexOf("{{", offset);
    const place = at();
    const isTrimmed = open >= 0 && source[open + 2] === "-" && /\s/.test(source[open + 3] ?? "");
    let text = move((open < 0 ? source.length : open) - offset);
    if (trimsNext) text = text.trimStart();
    if (isTrimmed) text = text.trimEnd();
    if (text !== "") push("text", text, place);
    trimsNext = false;
    if (open < 0) break;
    const start = at();
    move(isTrimmed ? 3 : 2);
    const comment = /^\s*\/\*/.exec(source.slice(offset));
    if (comment) {
      const end = source.indexOf("*/", offset + comment[0].length);
      if (end < 0) fail(start, "unterminated comment");
      move(end + 2 - offset);
      const close = /^\s*?(\s-)?}}/.exec(source.slice(offset));
      if (!close) fail(start, "an action with a comment must not contain anything else");
      move(close?.[0].length ?? 0);
      trimsNext = close?.[1] !== undefined;
      continue;
    }
    push("open", "{{", start);
    trimsNext = readAction();
  }
  push("end", "", at());
  return tokens;

  /** Reads an action. Returns whether it trims the white space after it. */
  function readAction(): boolean {
    const start = at();
    for (;;) {
      const space = /^\s+/.exec(source.slice(offset, offset + 4096))?.[0] ?? "";
      const isApart = move(space.length) !== "";
      const rest = source.slice(offset, offset + 4096);
      const place = at();
      if (rest === "") fail(start, "unterminated action: missing }}");
      if (isApart && rest.startsWith("-}}")) {
        move(3);
        push("close", "}}", place, isApart);
        return true;
      }
      if (rest.startsWith("}}")) {
        move(2);
        push("close", "}}", place, isApart);
        return false;
      }
      if (rest.startsWith('"')) push("string", quoted(place), place, isApart);
      else if (rest.startsWith("`")) {
        const end = source.indexOf("`", offset + 1);
        if (end < 0) fail(place, "unterminated raw string");
        push("string", move(end + 1 - offset).slice(1, -1), place, isApart);
      } else {
        const match =
          /^(?:(?<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))(?![\w.])|(?<variable>\$[\p{L}\p{N}_]*)|(?<field>\.[\p{L}_][\p{L}\p{N}_]*)|(?<word>[\p{L}_][\p{L}\p{N}_]*)|(?<mark>:=|=|\||\(|\)|,|\.))/u.exec(
            rest,
          );
        const [kind, found] = Object.entries(match?.groups ?? {}).find(([, value]) => value !== undefined) ?? [];
        if (kind === undefined || found === undefined) fail(place, `unexpected ${JSON.stringify([...rest][0])} in an action`);
        push(kind as Token["kind"], move(found?.length ?? 0), place, isApart);
      }
    }
  }

  function quoted(place: Position): string {
    move(1);
    let text = "";
    for (;;) {
      const char = move(1);
      if (char === "" || char === "\n") fail(place, "unterminated string");
      if (char === '"') return text;
      if (char !== "\\") {
        text += char;
        continue;
      }
      const escape = move(1);
      if (escape === "u" || escape === "x") {
        const digits = move(escape === "u" ? 4 : 2);
        if (!/^[0-9a-fA-F]+$/.test(digits)) fail(place, `bad escape \\${escape}${digits} in a string`);
        text += String.fromCharCode(Number.parseInt(digits, 16));
      } else text += escapes[escape] ?? fail(place, `bad escape \\${escape} in a string`);
    }
  }
}
