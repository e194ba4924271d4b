/** Returns the values that a path selects in an object, in order. */
export type ColumnPath = (object: unknown) => readonly unknown[];

type Step =
  | { readonly kind: "field"; readonly name: string }
  | { readonly kind: "index"; readonly index: number }
  | { readonly kind: "slice"; readonly from: number | undefined; readonly to: number | undefined }
  | { readonly kind: "all" }
  | { readonly kind: "filter"; readonly path: readonly Step[]; readonly operator: string; readonly value: unknown };

/**
 * Compiles the JSONPath of a printer column: kubectl's dialect without ranges and recursive descent.
 *
 *     .spec.replicas   .spec.tags[0]   .spec.tags[-1:]   .metadata.labels['app.kubernetes.io/name']
 *     .metadata.labels.app\.kubernetes\.io/name   .status.conditions[?(@.type=="Ready")].status   .items[*].name
 *
 * **Errors**: `SyntaxError` for any other syntax.
 */
export function compileColumnPath(source: string): ColumnPath {
  const reader = new PathReader(source);
  const steps = reader.steps();
  if (!reader.isAtEnd) throw reader.error("a field, an index or a filter");
  return (object) => follow([object], steps);
}

/** Formats a value in a column of type string: strings unchanged, everything else as JSON. */
export function printResult(value: unknown): string {
  if (typeof value === "string") return value;
  // Go's templates show nil so.
  if (value === null) return "<no value>";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function follow(values: readonly unknown[], steps: readonly Step[]): readonly unknown[] {
  let current = values;
  for (const step of steps) current = current.flatMap((value) => select(value, step));
  return current;
}

function select(value: unknown, step: Step): readonly unknown[] {
  if (typeof value !== "object" || value === null) return [];
  switch (step.kind) {
    case "field":
      return !Array.isArray(value) && Object.hasOwn(value, step.name) ? [(value as Record<string, unknown>)[step.name]] : [];
    case "index": {
      const found = Array.isArray(value) ? value.at(step.index) : undefined;
      return found === undefined ? [] : [found];
    }
    case "slice":
      return Array.isArray(value) ? value.slice(step.from, step.to) : [];
    case "all":
      return Object.values(value);
    case "filter":
      return Array.isArray(value) ? value.filter((element) => matches(element, step)) : [];
  }
}

function matches(element: unknown, { path, operator, value }: Extract<Step, { kind: "filter" }>): boolean {
  const found = follow([element], path);
  if (operator === "") return found.length > 0;
  const [left] = found;
  if (left === undefined) return false;
  if (operator === "==") return left === value;
  if (operator === "!=") return left !== value;
  if (typeof left !== typeof value || (typeof left !== "number" && typeof left !== "string")) return false;
  const right = value as typeof left;
  if (operator === "<") return left < right;
  if (operator === "<=") return left <= right;
  if (operator === ">") return left > right;
  return left >= right;
}

class PathReader {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#source.length;
  }

  error(expected: string): SyntaxError {
    return new SyntaxError(`invalid path ${JSON.stringify(this.#source)} at column ${this.#at + 1}: expected ${expected}`);
  }

  steps(): readonly Step[] {
    const steps: Step[] = [];
    for (;;) {
      if (this.#skip("[")) steps.push(this.#bracket());
      else if (this.#source[this.#at] === ".") {
        this.#at++;
        const name = this.#match(/(?:\\.|[^.[\]\\\s=!<>)])+/y);
        if (name === "*") steps.push({ kind: "all" });
        else if (name !== undefined) steps.push({ kind: "field", name: name.replaceAll(/\\(.)/g, "$1") });
        else if (this.#source[this.#at] !== "[" && !this.isAtEnd) throw this.error("a name");
      } else return steps;
    }
  }

  #bracket(): Step {
    const step = this.#inBracket();
    if (!this.#skip("]")) throw this.error("]");
    return step;
  }

  #inBracket(): Step {
    if (this.#skip("*")) return { kind: "all" };
    if (this.#skip("?(")) return this.#filter();
    const text = this.#text();
    if (text !== undefined) return { kind: "field", name: text };
    const from = this.#match(/-?\d+/y);
    if (!this.#skip(":")) {
      if (from === undefined) throw this.error("a number, a quoted name, * or a filter");
      return { kind: "index", index: Number(from) };
    }
    const to = this.#match(/-?\d+/y);
    return {
      kind: "slice",
      from: from === undefined ? undefined : Number(from),
      to: to === undefined ? undefined : Number(to),
    };
  }

  #filter(): Step {
    this.#spaces();
    if (!this.#skip("@")) throw this.error("@");
    const path = this.steps();
    this.#spaces();
    const operator = this.#match(/==|!=|<=|>=|<|>/y) ?? "";
    this.#spaces();
    const value = operator === "" ? undefined : this.#literal();
    this.#spaces();
    if (!this.#skip(")")) throw this.error(")");
    return { kind: "filter", path, operator, value };
  }

  #literal(): unknown {
    const text = this.#text();
    if (text !== undefined) return text;
    const word = this.#match(/[^\s)\]]+/y);
    if (word === "true" || word === "false") return word === "true";
    const number = Number(word);
    if (word === undefined || Number.isNaN(number)) throw this.error("a quoted string, a number, true or false");
    return number;
  }

  #text(): string | undefined {
    const quoted = this.#match(/'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"/y);
    return quoted?.slice(1, -1).replaceAll(/\\(.)/g, "$1");
  }

  #spaces(): void {
    this.#match(/\s+/y);
  }

  #skip(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  /** `expression` must be sticky. */
  #match(expression: RegExp): string | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}
