/** A piece of a label selector's text. */
export interface SelectorToken {
  /** A `word` is a key, a value, or `in` and `notin`; a `fault` is a run of symbols that means nothing. */
  readonly kind: "word" | "symbol" | "fault" | "end";
  readonly text: string;
}

const symbols = ["!=", "==", "=", "!", "(", ")", ",", "<", ">"];

/** Splits a label selector into its tokens. Blanks separate and mean nothing else. */
export function tokenizeSelector(text: string): SelectorToken[] {
  const tokens: SelectorToken[] = [];
  const expression = /\s*(?:([^\s=!(),<>]+)|([=!(),<>]))/gy;
  for (let match = expression.exec(text); match; match = expression.exec(text)) {
    const [, word, symbol] = match;
    if (word !== undefined) {
      tokens.push({ kind: "word", text: word });
      continue;
    }
    const start = expression.lastIndex - 1;
    const known = symbols.find((candidate) => text.startsWith(candidate, start)) ?? symbol ?? "";
    expression.lastIndex = start + known.length;
    tokens.push({ kind: "symbol", text: known });
  }
  tokens.push({ kind: "end", text: "" });
  return tokens;
}
