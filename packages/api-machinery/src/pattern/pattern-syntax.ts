/** Syntax tree of a regular expression in Go's syntax (RE2). */
export type PatternNode =
  | { readonly kind: "set"; readonly set: CharacterSet }
  | { readonly kind: "assert"; readonly at: "begin" | "end" | "beginLine" | "endLine" | "word" | "notWord" }
  | { readonly kind: "sequence"; readonly nodes: readonly PatternNode[] }
  | { readonly kind: "choice"; readonly nodes: readonly PatternNode[] }
  | { readonly kind: "repeat"; readonly node: PatternNode; readonly min: number; readonly max: number };

/** Characters by ranges of code points (both ends included) and by Unicode property, or all others. */
export interface CharacterSet {
  readonly ranges: readonly (readonly [number, number])[];
  readonly properties: readonly { readonly name: string; readonly negated: boolean }[];
  readonly negated: boolean;
}

const maxDepth = 200;
const maxRepeat = 1000;
const maxSourceLength = 16_384;

type Range = readonly [number, number];

const digit: Range[] = [[48, 57]];
const word: Range[] = [
  [48, 57],
  [65, 90],
  [95, 95],
  [97, 122],
];
const space: Range[] = [
  [9, 10],
  [12, 13],
  [32, 32],
];
const perl: Readonly<Record<string, Range[]>> = { d: digit, w: word, s: space };
const posix: Readonly<Record<string, Range[]>> = {
  alnum: [
    [48, 57],
    [65, 90],
    [97, 122],
  ],
  alpha: [
    [65, 90],
    [97, 122],
  ],
  ascii: [[0, 127]],
  blank: [
    [9, 9],
    [32, 32],
  ],
  cntrl: [
    [0, 31],
    [127, 127],
  ],
  digit,
  graph: [[33, 126]],
  lower: [[97, 122]],
  print: [[32, 126]],
  punct: [
    [33, 47],
    [58, 64],
    [91, 96],
    [123, 126],
  ],
  space: [
    [9, 13],
    [32, 32],
  ],
  upper: [[65, 90]],
  word,
  xdigit: [
    [48, 57],
    [65, 70],
    [97, 102],
  ],
};
const escapes: Readonly<Record<string, number>> = { a: 7, f: 12, n: 10, r: 13, t: 9, v: 11 };

interface Flags {
  fold: boolean;
  lines: boolean;
  dotAll: boolean;
}

/**
 * Parses a regular expression in Go's syntax.
 *
 * **Errors**: throws a `SyntaxError` in the words of Go's `regexp.Compile`.
 */
export function parsePattern(source: string): PatternNode {
  if (source.length > maxSourceLength) throw fault("expression too large", "");
  const parser = new PatternParser(source);
  return parser.parse();
}

function fault(what: string, at: string): SyntaxError {
  return new SyntaxError(`error parsing regexp: ${what}: \`${at}\``);
}

class PatternParser {
  readonly #source: string;
  readonly #text: readonly string[];
  #at = 0;
  #flags: Flags = { fold: false, lines: false, dotAll: false };

  constructor(source: string) {
    this.#source = source;
    this.#text = Array.from(source);
  }

  parse(): PatternNode {
    const node = this.#choice(0);
    if (this.#at < this.#text.length) throw fault("unexpected )", this.#source);
    return node;
  }

  #peek(): string | undefined {
    return this.#text[this.#at];
  }

  #slice(from: number, to = this.#at): string {
    return this.#text.slice(from, to).join("");
  }

  #choice(depth: number): PatternNode {
    if (depth > maxDepth) throw fault("expression nests too deeply", this.#source);
    const nodes = [this.#sequence(depth)];
    while (this.#peek() === "|") {
      this.#at++;
      nodes.push(this.#sequence(depth));
    }
    const [only] = nodes;
    return nodes.length === 1 && only ? only : { kind: "choice", nodes };
  }

  #sequence(depth: number): PatternNode {
    const nodes: PatternNode[] = [];
    let lastRepeat = -1;
    for (let char = this.#peek(); char !== undefined && char !== "|" && char !== ")"; char = this.#peek()) {
      const start = this.#at;
      const repeat = this.#repetition();
      if (repeat === undefined) {
        nodes.push(this.#atom(depth));
        lastRepeat = -1;
        continue;
      }
      const node = nodes.pop();
      if (node === undefined) throw fault("missing argument to repetition operator", this.#slice(start));
      if (lastRepeat >= 0) throw fault("invalid nested repetition operator", this.#slice(lastRepeat));
      lastRepeat = start;
      nodes.push({ kind: "repeat", node, ...repeat });
    }
    const [only] = nodes;
    return nodes.length === 1 && only ? only : { kind: "sequence", nodes };
  }

  /** The repetition operator here, if there is one. Whether it is greedy makes no difference to a test. */
  #repetition(): { min: number; max: number } | undefined {
    const char = this.#peek();
    let bounds: { min: number; max: number } | undefined;
    if (char === "*") bounds = { min: 0, max: Infinity };
    else if (char === "+") bounds = { min: 1, max: Infinity };
    else if (char === "?") bounds = { min: 0, max: 1 };
    if (bounds) {
      this.#at++;
    } else if (char === "{") {
      const close = this.#text.indexOf("}", this.#at);
      const text = close < 0 ? "" : this.#slice(this.#at, close + 1);
      const match = /^\{(\d+)(,(\d*))?\}$/.exec(text);
      if (!match) return undefined;
      const min = Number(match[1]);
      const max = match[2] === undefined ? min : match[3] === "" ? Infinity : Number(match[3]);
      if (min > maxRepeat || (max !== Infinity && (max > maxRepeat || max < min))) throw fault("invalid repeat count", text);
      bounds = { min, max };
      this.#at = close + 1;
    }
    if (bounds && this.#peek() === "?") this.#at++;
    return bounds;
  }

  #atom(depth: number): PatternNode {
    const char = this.#text[this.#at++] ?? "";
    switch (char) {
      case "(":
        return this.#group(depth);
      case "[":
        return this.#brackets();
      case ".":
        return set({ ranges: this.#flags.dotAll ? [] : [[10, 10]], properties: [], negated: true });
      case "^":
        return { kind: "assert", at: this.#flags.lines ? "beginLine" : "begin" };
      case "$":
        return { kind: "assert", at: this.#flags.lines ? "endLine" : "end" };
      case "\\":
        return this.#escape();
      default:
        return this.#literal(char.codePointAt(0) ?? 0);
    }
  }

  #literal(code: number): PatternNode {
    return set({ ranges: this.#folded([[code, code]]), properties: [], negated: false });
  }

  #folded(ranges: readonly Range[]): readonly Range[] {
    if (!this.#flags.fold) return ranges;
    const all: Range[] = [...ranges];
    for (const [low, high] of ranges) {
      const upper: Range = [Math.max(low, 65), Math.min(high, 90)];
      const lower: Range = [Math.max(low, 97), Math.min(high, 122)];
      if (upper[0] <= upper[1]) all.push([upper[0] + 32, upper[1] + 32]);
      if (lower[0] <= lower[1]) all.push([lower[0] - 32, lower[1] - 32]);
      if (low === high && low > 127) {
        const char = String.fromCodePoint(low);
        for (const other of [char.toLowerCase(), char.toUpperCase()]) {
          const code = other.codePointAt(0) ?? low;
          all.push([code, code]);
        }
      }
    }
    return all;
  }

  #group(depth: number): PatternNode {
    const outer = { ...this.#flags };
    if (this.#peek() === "?") {
      const start = this.#at - 1;
      const name = /^\(\?P?<([A-Za-z_]\w*)>/.exec(this.#slice(start, start + 64));
      if (name) {
        this.#at = start + name[0].length;
      } else {
        this.#at++;
        let on = true;
        for (;;) {
          const char = this.#text[this.#at++];
          if (char === "i") this.#flags.fold = on;
          else if (char === "m") this.#flags.lines = on;
          else if (char === "s") this.#flags.dotAll = on;
          else if (char === "-" && on) on = false;
          else if (char === ")") return { kind: "sequence", nodes: [] };
          else if (char === ":") break;
          else if (char === undefined) throw fault("missing closing )", this.#source);
          else if (char !== "U") throw fault("invalid or unsupported Perl syntax", this.#slice(start));
        }
      }
    }
    const node = this.#choice(depth + 1);
    if (this.#peek() !== ")") throw fault("missing closing )", this.#source);
    this.#at++;
    this.#flags = outer;
    return node;
  }

  #escape(): PatternNode {
    const start = this.#at - 1;
    const char = this.#text[this.#at];
    if (char === undefined) throw fault("trailing backslash at end of expression", "");
    const asserts = { A: "begin", z: "end", b: "word", B: "notWord" } as const;
    if (Object.hasOwn(asserts, char)) {
      this.#at++;
      return { kind: "assert", at: asserts[char as keyof typeof asserts] };
    }
    if (char === "Q") {
      this.#at++;
      const end = this.#source.indexOf("\\E", this.#slice(0).length);
      const quoted = Array.from(this.#source.slice(this.#slice(0).length, end < 0 ? undefined : end));
      this.#at += quoted.length + (end < 0 ? 0 : 2);
      return { kind: "sequence", nodes: quoted.map((one) => this.#literal(one.codePointAt(0) ?? 0)) };
    }
    const klass = this.#classEscape();
    if (klass) return set(klass);
    const code = this.#charEscape(start);
    return this.#literal(code);
  }

  /** `\d`, `\W`, `\pL`, `\P{Greek}`. */
  #classEscape(): CharacterSet | undefined {
    const char = this.#peek() ?? "";
    const ranges = perl[char.toLowerCase()];
    if (ranges && /[dwsDWS]/.test(char)) {
      this.#at++;
      return { ranges, properties: [], negated: char !== char.toLowerCase() };
    }
    if (char !== "p" && char !== "P") return undefined;
    const start = this.#at - 1;
    this.#at++;
    let name = this.#text[this.#at++] ?? "";
    if (name === "{") {
      const close = this.#text.indexOf("}", this.#at);
      if (close < 0) throw fault("invalid character class range", this.#slice(start, this.#text.length));
      name = this.#slice(this.#at, close);
      this.#at = close + 1;
    }
    const negated = (char === "P") !== name.startsWith("^");
    name = name.replace("^", "");
    const property = ["", "Script="].map((prefix) => `${prefix}${name}`).find(isUnicodeProperty);
    if (property === undefined) throw fault("invalid character class range", this.#slice(start));
    return { ranges: [], properties: [{ name: property, negated }], negated: false };
  }

  #charEscape(start: number): number {
    const char = this.#text[this.#at++] ?? "";
    const simple = Object.hasOwn(escapes, char) ? escapes[char] : undefined;
    if (simple !== undefined) return simple;
    if (char === "x") {
      const match = /^(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))/.exec(this.#slice(this.#at, this.#at + 8));
      const code = match ? Number.parseInt(match[1] ?? match[2] ?? "", 16) : Infinity;
      if (!match || code > 0x10ffff) throw fault("invalid escape sequence", this.#slice(start));
      this.#at += match[0].length;
      return code;
    }
    if (/[0-7]/.test(char)) {
      const match = /^(?:0[0-7]{0,2}|[1-7][0-7]{1,2})/.exec(this.#slice(this.#at - 1, this.#at + 2));
      if (!match) throw fault("invalid escape sequence", this.#slice(start));
      this.#at += match[0].length - 1;
      return Number.parseInt(match[0], 8);
    }
    const code = char.codePointAt(0) ?? 0;
    if (code < 128 && !/[A-Za-z0-9]/.test(char)) return code;
    throw fault("invalid escape sequence", this.#slice(start));
  }

  #brackets(): PatternNode {
    const start = this.#at - 1;
    const negated = this.#peek() === "^";
    if (negated) this.#at++;
    const ranges: Range[] = [];
    const properties: { name: string; negated: boolean }[] = [];
    for (let first = true; ; first = false) {
      const char = this.#peek();
      if (char === undefined) throw fault("missing closing ]", this.#slice(start, this.#text.length));
      if (char === "]" && !first) break;
      const named = /^\[:(\^?)([a-z]+):\]/.exec(this.#slice(this.#at, this.#at + 12));
      if (named) {
        const known = posix[named[2] ?? ""];
        if (!known) throw fault("invalid character class range", named[0]);
        ranges.push(...(named[1] === "^" ? complement(known) : known));
        this.#at += named[0].length;
        continue;
      }
      const rangeStart = this.#at;
      const low = this.#bracketItem(start);
      if (typeof low !== "number") {
        ranges.push(...(low.negated ? complement(low.ranges) : low.ranges));
        properties.push(...low.properties);
        continue;
      }
      let high = low;
      if (this.#peek() === "-" && this.#text[this.#at + 1] !== "]" && this.#text[this.#at + 1] !== undefined) {
        this.#at++;
        const end = this.#bracketItem(start);
        if (typeof end !== "number" || end < low) throw fault("invalid character class range", this.#slice(rangeStart));
        high = end;
      }
      ranges.push([low, high]);
    }
    this.#at++;
    return set({ ranges: this.#folded(ranges), properties, negated });
  }

  #bracketItem(start: number): number | CharacterSet {
    const char = this.#text[this.#at++];
    if (char === undefined) throw fault("missing closing ]", this.#slice(start, this.#text.length));
    if (char !== "\\") return char.codePointAt(0) ?? 0;
    if (this.#peek() === undefined) throw fault("trailing backslash at end of expression", "");
    return this.#classEscape() ?? this.#charEscape(this.#at - 1);
  }
}

function set(value: CharacterSet): PatternNode {
  return { kind: "set", set: value };
}

function isUnicodeProperty(name: string): boolean {
  try {
    return /^[\w=]+$/.test(name) && new RegExp(`\\p{${name}}`, "u") instanceof RegExp;
  } catch {
    return false;
  }
}

function complement(ranges: readonly Range[]): Range[] {
  const result: Range[] = [];
  let next = 0;
  for (const [low, high] of ranges.toSorted((a, b) => a[0] - b[0])) {
    if (low > next) result.push([next, low - 1]);
    next = Math.max(next, high + 1);
  }
  if (next <= 0x10ffff) result.push([next, 0x10ffff]);
  return result;
}
