/** A token of a label selector. */
export interface SelectorToken {
  /** A `word` is a key, a value, `in` or `notin`; a `fault` is a meaningless run of symbols. */
  readonly kind: "word" | "symbol" | "fault" | "end";
  readonly text: string;
}

const symbols = ["!=", "==", "=", "!", "(", ")", ",", "<", ">"];

/** Splits a label selector into tokens. Whitespace only separates. */
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
