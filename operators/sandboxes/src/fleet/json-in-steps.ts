import type { Pause } from "./report-budget.ts";

/** Characters that are parsed, or searched, in one step. Less than 2 ms in every case that was tried. */
const stepLength = 32 * 1024;

/** A longer string is invalid: no field permits it, and its escapes would take too long in one step. */
const maxStringLength = 1 << 20;

/** More elements of a long list or object are invalid: no field permits them, and millions of values keep the garbage collector busy. */
const maxElements = 20_000;

/** Deeper values must fit in one step. */
const maxDepth = 6;

/**
 * The value of a JSON text, or undefined if it is not JSON. `pause` is called, and its promise awaited, between steps, so that a long text of an
 * untrusted peer does not keep others waiting. Lists and objects above 32 KiB are parsed in parts. They are invalid if they have more than
 * 20,000 elements or are within six others, and so are strings above 1 MiB.
 */
export async function parseJsonInSteps(text: string, pause: Pause): Promise<unknown> {
  try {
    return await new SteppedParser(text, pause).parse(0, text.length, 0);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

class SteppedParser {
  readonly #text: string;
  readonly #pause: Pause;

  constructor(text: string, pause: Pause) {
    this.#text = text;
    this.#pause = pause;
  }

  /** The value of a part of the text. */
  async parse(from: number, to: number, depth: number): Promise<unknown> {
    if (to - from <= stepLength) return this.#parseStep(this.#text.slice(from, to));
    const [start, end] = this.#trim(from, to);
    const first = this.#text[start];
    if (first === '"' && end - start <= maxStringLength) return this.#parseStep(this.#text.slice(start, end));
    const isList = first === "[";
    if (depth === maxDepth || (!isList && first !== "{") || this.#text[end - 1] !== (isList ? "]" : "}"))
      throw new SyntaxError("not a value that can be parsed in steps");
    const items: unknown[] = [];
    const entries: [string, unknown][] = [];
    for await (const part of this.#parts(start + 1, end - 1)) {
      const isShort = part.to - part.from <= stepLength;
      if (isShort) {
        const text = this.#text.slice(part.from, part.to);
        if (text.trim() === "") throw new SyntaxError("an element is missing");
        const parsed = await this.#parseStep(isList ? `[${text}]` : `{${text}}`);
        if (isList) items.push(...(parsed as unknown[]));
        else entries.push(...Object.entries(parsed as Record<string, unknown>));
      } else if (isList) items.push(await this.parse(part.from, part.to, depth + 1));
      else entries.push(await this.#parseMember(part.from, part.to, depth + 1));
      if (items.length + entries.length > maxElements) throw new SyntaxError(`more than ${maxElements} elements`);
    }
    return isList ? items : Object.fromEntries(entries);
  }

  async #parseStep(text: string): Promise<unknown> {
    await this.#pause();
    return JSON.parse(text) as unknown;
  }

  /** A member of an object, with its name. */
  async #parseMember(from: number, to: number, depth: number): Promise<[string, unknown]> {
    const [start] = this.#trim(from, to);
    const nameEnd = this.#endOfString(start, Math.min(to, start + stepLength));
    const colon = /^\s*:/.exec(this.#text.slice(nameEnd, nameEnd + 16));
    if (colon === null) throw new SyntaxError("a member has no name");
    const name = JSON.parse(this.#text.slice(start, nameEnd)) as string;
    return [name, await this.parse(nameEnd + colon[0].length, to, depth)];
  }

  /**
   * The content of a list or an object in parts: several elements that are short together, or a long one. Brackets are counted, not compared:
   * JSON.parse does that.
   */
  async *#parts(from: number, to: number): AsyncGenerator<{ readonly from: number; readonly to: number }> {
    let nesting = 0;
    let partStart = from;
    let elementStart = from;
    let stepEnd = from + stepLength;
    for (let at = from; at < to; at += 1) {
      if (at >= stepEnd) {
        await this.#pause();
        stepEnd = at + stepLength;
      }
      const character = this.#text.charCodeAt(at);
      if (character === quote) at = this.#endOfString(at, to) - 1;
      else if (character === openBracket || character === openBrace) nesting += 1;
      else if (character === closeBracket || character === closeBrace) nesting -= 1;
      else if (character !== comma || nesting !== 0) continue;
      else {
        if (at - partStart > stepLength) {
          if (elementStart > partStart) yield { from: partStart, to: elementStart - 1 };
          partStart = elementStart;
          if (at - partStart > stepLength) {
            yield { from: partStart, to: at };
            partStart = at + 1;
          }
        }
        elementStart = at + 1;
      }
      if (nesting < 0) throw new SyntaxError("a bracket is closed that was not opened");
    }
    if (elementStart > partStart && to - partStart > stepLength) {
      yield { from: partStart, to: elementStart - 1 };
      partStart = elementStart;
    }
    yield { from: partStart, to };
  }

  /** The position after the string that begins at `from`. */
  #endOfString(from: number, to: number): number {
    if (this.#text.charCodeAt(from) !== quote) throw new SyntaxError("a string is missing");
    for (let at = from + 1; at < to && at - from <= maxStringLength; at += 1) {
      const character = this.#text.charCodeAt(at);
      if (character === backslash) at += 1;
      else if (character === quote) return at + 1;
    }
    throw new SyntaxError("a string does not end, or is too long");
  }

  /** The bounds of a part without white space. */
  #trim(from: number, to: number): readonly [number, number] {
    let [start, end] = [from, to];
    while (start < end && isSpace(this.#text.charCodeAt(start))) start += 1;
    while (end > start && isSpace(this.#text.charCodeAt(end - 1))) end -= 1;
    return [start, end];
  }
}

const codeOf = (character: string): number => character.charCodeAt(0);
const [quote, backslash, comma] = [codeOf('"'), codeOf("\\"), codeOf(",")];
const [openBracket, closeBracket, openBrace, closeBrace] = [codeOf("["), codeOf("]"), codeOf("{"), codeOf("}")];
const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13);
