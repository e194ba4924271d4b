import { celLiteral } from "./cel-text.ts";
import { ConversionError } from "./problem-list.ts";

/** A token of a JMESPath expression. */
export type Token =
  | { readonly kind: "name" | "variable" | "number" | "operator" | "symbol"; readonly text: string }
  | { readonly kind: "literal"; readonly text: string; readonly cel: string };

const patterns: readonly (readonly [Token["kind"], RegExp])[] = [
  ["literal", /`(?:[^`\\]|\\.)*`|'(?:[^'\\]|\\.)*'/y],
  ["variable", /\$([A-Za-z_]\w*)/y],
  ["name", /[A-Za-z_]\w*|"(?:[^"\\]|\\.)*"/y],
  ["number", /-?\d+/y],
  ["operator", /\|\||&&|==|!=|<=|>=|[<>!+*/-]/y],
  ["symbol", /[@.,()[\]]/y],
];

/** Splits an expression. **Errors**: a {@link ConversionError} for what this subset does not have. */
export function tokensOf(source: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < source.length; ) {
    if (/\s/.test(source[at] ?? "")) {
      at++;
      continue;
    }
    const token = tokenAt(source, at);
    tokens.push(token.token);
    at = token.end;
  }
  return tokens;
}

function tokenAt(source: string, at: number): { readonly token: Token; readonly end: number } {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at;
    const match = pattern.exec(source);
    if (match === null) continue;
    const [all, group] = match;
    const end = at + all.length;
    if (kind === "literal") return { token: { kind, text: all, cel: literalOf(all, source) }, end };
    const text = kind === "name" && all.startsWith('"') ? String(parsed(all, source)) : (group ?? all);
    return { token: { kind, text }, end };
  }
  throw new ConversionError(`(${source}): this JMESPath has no counterpart in CEL; write the expression by hand`);
}

const literalOf = (text: string, source: string): string =>
  text.startsWith("'")
    ? celLiteral(text.slice(1, -1).replaceAll("\\'", "'"))
    : celLiteral(parsed(text.slice(1, -1).replaceAll("\\`", "`"), source));

function parsed(text: string, source: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new ConversionError(`(${source}): ${text} is not valid JSON`, { cause: error });
  }
}
