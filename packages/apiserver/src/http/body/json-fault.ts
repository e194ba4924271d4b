/** A position in JSON text where Go's parser stops. */
class JsonFault extends Error {}

/**
 * Why a text is not JSON, in the words of Go's `encoding/json`: `invalid character 'x' looking for beginning of value`. Undefined if it is
 * JSON. The nesting of the text must be limited.
 */
export function jsonFault(text: string): string | undefined {
  const scanner = new Scanner(text);
  try {
    scanner.document();
  } catch (error) {
    if (error instanceof JsonFault) return error.message;
    throw error;
  }
  return undefined;
}

class Scanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): void {
    this.#value();
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail("after top-level value");
  }

  #value(): void {
    this.#skipSpace();
    const first = this.#text.charAt(this.#at);
    if (first === "{") this.#object();
    else if (first === "[") this.#list();
    else if (first === '"') this.#string();
    else if (first === "-" || isDigit(first)) this.#number();
    else this.#literal(first);
  }

  #object(): void {
    this.#at++;
    this.#skipSpace();
    if (this.#take("}")) return;
    do {
      this.#skipSpace();
      if (this.#text.charAt(this.#at) !== '"') this.#fail("looking for beginning of object key string");
      this.#string();
      this.#skipSpace();
      if (!this.#take(":")) this.#fail("after object key");
      this.#value();
      this.#skipSpace();
    } while (this.#take(","));
    if (!this.#take("}")) this.#fail("after object key:value pair");
  }

  #list(): void {
    this.#at++;
    this.#skipSpace();
    if (this.#take("]")) return;
    do {
      this.#value();
      this.#skipSpace();
    } while (this.#take(","));
    if (!this.#take("]")) this.#fail("after array element");
  }

  #string(): void {
    this.#at++;
    while (!this.#take('"')) {
      if (this.#text.charAt(this.#at) < " ") this.#fail("in string literal");
      if (!this.#take("\\")) this.#at++;
      else if (this.#take("u")) this.#hexadecimal();
      else if (!this.#takeOne(/["\\/bfnrt]/)) this.#failInside("in string escape code");
    }
  }

  #hexadecimal(): void {
    for (let digits = 0; digits < 4; digits++) {
      if (!this.#takeOne(/[0-9a-fA-F]/)) this.#failInside("in \\u hexadecimal character escape");
    }
  }

  #number(): void {
    this.#take("-");
    if (!this.#take("0")) this.#digits("in numeric literal");
    if (this.#take(".")) this.#digits("after decimal point in numeric literal");
    if (!this.#takeOne(/[eE]/)) return;
    this.#takeOne(/[+-]/);
    this.#digits("in exponent of numeric literal");
  }

  #digits(context: string): void {
    if (!this.#takeOne(/\d/)) this.#failInside(context);
    while (this.#takeOne(/\d/));
  }

  #literal(first: string): void {
    const word = ["true", "false", "null"].find((each) => each.startsWith(first));
    if (word === undefined || first === "") this.#fail("looking for beginning of value");
    for (const letter of word) if (!this.#take(letter)) this.#failInside(`in literal ${word} (expecting '${letter}')`);
  }

  #skipSpace(): void {
    while (this.#takeOne(/[ \t\r\n]/));
  }

  #take(character: string): boolean {
    if (this.#text.charAt(this.#at) !== character) return false;
    this.#at++;
    return true;
  }

  #takeOne(pattern: RegExp): boolean {
    if (!pattern.test(this.#text.charAt(this.#at))) return false;
    this.#at++;
    return true;
  }

  #fail(context: string): never {
    if (this.#at >= this.#text.length) throw new JsonFault("unexpected end of JSON input");
    this.#failInside(context);
  }

  /** Fails inside a token, where Go reads the end of the text as a space. */
  #failInside(context: string): never {
    const code = this.#text.codePointAt(this.#at) ?? 0x20;
    throw new JsonFault(`invalid character ${quoted(String.fromCodePoint(code))} ${context}`);
  }
}

/** A character as Go quotes it. Of one with several bytes it shows the first. */
function quoted(character: string): string {
  if (character === "'") return "'\\''";
  if (character === '"') return "'\"'";
  const byte = Buffer.from(character)[0] ?? 0;
  const isControl = byte < 0x20 && !"\t\n\r\f\b\v".includes(character);
  const text = byte < 0x80 ? character : String.fromCharCode(byte);
  if (isControl || byte === 0x7f) return `'\\x${byte.toString(16).padStart(2, "0")}'`;
  return `'${JSON.stringify(text).slice(1, -1).replace("\\u000b", "\\v")}'`;
}

function isDigit(character: string): boolean {
  return character >= "0" && character <= "9" && character.length === 1;
}
