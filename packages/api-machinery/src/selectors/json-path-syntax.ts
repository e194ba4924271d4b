/** One step of a JSONPath. */
export type JsonPathStep =
  | { readonly kind: "root" }
  | { readonly kind: "fields"; readonly names: readonly string[] }
  | { readonly kind: "wildcard" }
  | { readonly kind: "descend" }
  | { readonly kind: "indices"; readonly indices: readonly number[] }
  | { readonly kind: "slice"; readonly from: number | undefined; readonly to: number | undefined; readonly step: number }
  | {
      readonly kind: "filter";
      readonly left: FilterOperand;
      readonly operator: string;
      readonly right: FilterOperand | undefined;
    };

/** One side of a filter's comparison. Its steps start at the element (`@`) or at the root (`$`). */
export type FilterOperand =
  | { readonly kind: "literal"; readonly value: unknown }
  | { readonly kind: "path"; readonly steps: readonly JsonPathStep[] };

const maxLength = 4_096;
const maxNesting = 16;

/**
 * Parses a JSONPath into its steps.
 *
 * **Errors**: a `SyntaxError` that names the path and the offset.
 */
export function parseJsonPathSteps(text: string): JsonPathStep[] {
  if (text.length > maxLength) throw new SyntaxError(`JSONPath longer than ${maxLength} characters`);
  let inner = text.trim();
  if (inner.startsWith("{") && inner.endsWith("}")) inner = inner.slice(1, -1).trim();
  const parser = new JsonPathParser(inner);
  const steps = parser.steps(0);
  if (!parser.isAtEnd) throw parser.fault("unexpected character");
  return steps;
}

class JsonPathParser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  fault(what: string): SyntaxError {
    return new SyntaxError(`JSONPath ${JSON.stringify(this.#text)}: ${what} at ${this.#at}`);
  }

  #accept(text: string): boolean {
    if (!this.#text.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  #match(expression: RegExp): string | undefined {
    expression.lastIndex = this.#at;
    const match = expression.exec(this.#text);
    if (match) this.#at += match[0].length;
    return match?.[0];
  }

  #blanks(): void {
    this.#match(/\s*/y);
  }

  steps(nesting: number): JsonPathStep[] {
    const steps: JsonPathStep[] = [];
    if (nesting > maxNesting) throw this.fault("filters nest too deeply");
    if (this.#accept("$")) steps.push({ kind: "root" });
    else if (!this.#accept("@")) {
      const name = this.#name();
      if (name !== undefined) steps.push({ kind: "fields", names: [name] });
    }
    for (;;) {
      if (this.#accept("..")) {
        steps.push({ kind: "descend" });
        if (this.#text[this.#at] !== "[") steps.push(this.#dotted());
      } else if (this.#accept(".")) {
        // A lone "." is the value itself; ".[0]" is "[0]".
        if (!this.isAtEnd && this.#text[this.#at] !== "[") steps.push(this.#dotted());
      } else if (this.#accept("[")) steps.push(this.#brackets(nesting));
      else return steps;
    }
  }

  #dotted(): JsonPathStep {
    if (this.#accept("*")) return { kind: "wildcard" };
    const name = this.#name();
    if (name === undefined) throw this.fault("a field's name is missing");
    return { kind: "fields", names: [name] };
  }

  /** Parses a name after a dot. A backslash escapes the next character: `.metadata.labels.a\.b`. */
  #name(): string | undefined {
    const text = this.#match(/(?:\\.|[^\s.[\](){}"'\\=!<>,?@$*])+/y);
    return text?.replace(/\\(.)/g, "$1");
  }

  #brackets(nesting: number): JsonPathStep {
    this.#blanks();
    let step: JsonPathStep;
    if (this.#accept("?(")) step = this.#filter(nesting);
    else if (this.#accept("*")) step = { kind: "wildcard" };
    else if (this.#text[this.#at] === "'" || this.#text[this.#at] === '"') {
      const names: string[] = [];
      do {
        this.#blanks();
        names.push(this.#quoted());
        this.#blanks();
      } while (this.#accept(","));
      step = { kind: "fields", names };
    } else step = this.#numbers();
    this.#blanks();
    if (!this.#accept("]")) throw this.fault('"]" is missing');
    return step;
  }

  #numbers(): JsonPathStep {
    const text = this.#match(/[-\d:,\s]+/y)?.replaceAll(/\s/g, "") ?? "";
    if (/^-?\d{1,9}(?:,-?\d{1,9})*$/.test(text)) return { kind: "indices", indices: text.split(",").map(Number) };
    const match = /^(-?\d{1,9})?:(-?\d{1,9})?(?::(\d{1,9}))?$/.exec(text);
    const step = Number(match?.[3] ?? 1);
    if (!match || step === 0) throw this.fault("an index, a slice, a name in quotes, * or a filter is missing");
    const bound = (part: string | undefined) => (part === undefined ? undefined : Number(part));
    return { kind: "slice", from: bound(match[1]), to: bound(match[2]), step };
  }

  #quoted(): string {
    const text = this.#match(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/y);
    if (text === undefined) throw this.fault("a name in quotes is missing");
    return text.slice(1, -1).replace(/\\(.)/g, "$1");
  }

  #filter(nesting: number): JsonPathStep {
    const left = this.#operand(nesting);
    this.#blanks();
    const operator = this.#match(/==|!=|<=|>=|<|>/y);
    const right = operator === undefined ? undefined : this.#operand(nesting);
    this.#blanks();
    if (!this.#accept(")")) throw this.fault('")" is missing');
    return { kind: "filter", left, operator: operator ?? "", right };
  }

  #operand(nesting: number): FilterOperand {
    this.#blanks();
    const char = this.#text[this.#at];
    if (char === "'" || char === '"') return { kind: "literal", value: this.#quoted() };
    const number = this.#match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (number !== undefined) return { kind: "literal", value: Number(number) };
    const word = this.#match(/(?:true|false|null)\b/y);
    if (word !== undefined) return { kind: "literal", value: JSON.parse(word) as unknown };
    if (char !== "@" && char !== "$" && char !== ".") throw this.fault("a value or a path is missing");
    return { kind: "path", steps: this.steps(nesting + 1) };
  }
}
