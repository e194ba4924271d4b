/** A link's place in the text of a tag. */
interface Link {
  /** In lower case. */
  readonly attribute: string;
  readonly from: number;
  readonly to: number;
}

/** What ends each state of the tokenizer. */
const stops = {
  name: /[\t\n\f\r />]/g,
  beforeAttribute: /[^\t\n\f\r /]/g,
  attribute: /[\t\n\f\r />=]/g,
  afterAttribute: /[^\t\n\f\r ]/g,
  beforeValue: /[^\t\n\f\r ]/g,
  unquoted: /[\t\n\f\r >]/g,
  '"': /"/g,
  "'": /'/g,
} as const;

/** Text beyond it is not kept. */
const maxLength = 64 * 1024;
/** Longer than the names of all elements and attributes that matter. Longer names are cut. */
const maxNameLength = 16;

/** A start tag that is read by the rules of HTML's tokenizer, in as many pieces as it arrives in. Each piece is read once. */
export class StartTag {
  #state: keyof typeof stops = "name";
  /** With the `<`. */
  #name = "";
  #attribute = "";
  #text = "";
  #values: Link[] = [];
  /** Where the value that is being read begins. */
  #from = 0;
  #isEnded = false;
  #isTooLong = false;

  /** In lower case. Names longer than those of known elements may be cut. */
  get name(): string {
    return this.#name.slice(1).toLowerCase();
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whether the tag has more than 64 KiB. Its text then passes unchanged, in parts. */
  get isTooLong(): boolean {
    return this.#isTooLong;
  }

  /** Reads `text` from `from`: in the first piece, from the `<`. Returns the position after the tag, or the end of the text. */
  read(text: string, from: number): number {
    const offset = this.#text.length - from;
    let at = from;
    while (at < text.length && !this.#isEnded) {
      const pattern = stops[this.#state];
      pattern.lastIndex = at;
      const stop = pattern.exec(text)?.index ?? text.length;
      if (this.#state === "name") this.#name = extended(this.#name, text, at, stop);
      else if (this.#state === "attribute") this.#attribute = extended(this.#attribute, text, at, stop);
      at = stop < text.length ? this.#step(text, stop, offset) : stop;
    }
    this.#text += text.slice(from, at);
    if (this.#text.length > maxLength) {
      this.#isTooLong = true;
      this.#values = [];
    }
    return at;
  }

  /** Enters the state that the character at `stop` begins. Returns the position from which to read on. */
  #step(text: string, stop: number, offset: number): number {
    const character = text[stop];
    switch (this.#state) {
      case "name":
        this.#state = "beforeAttribute";
        return stop;
      case "beforeAttribute":
        this.#isEnded = character === ">";
        // An attribute's name may begin with `=`.
        this.#state = "attribute";
        this.#attribute = character ?? "";
        return stop + 1;
      case "attribute":
        this.#state = "afterAttribute";
        return stop;
      case "afterAttribute":
        this.#state = character === "=" ? "beforeValue" : "beforeAttribute";
        return character === "=" ? stop + 1 : stop;
      case "beforeValue":
        this.#state = character === '"' || character === "'" ? character : "unquoted";
        this.#from = offset + stop + (this.#state === "unquoted" ? 0 : 1);
        return this.#state === "unquoted" ? stop : stop + 1;
      default: {
        const end = this.#state === "unquoted" ? stop : stop + 1;
        if (!this.#isTooLong)
          this.#values.push({ attribute: this.#attribute.toLowerCase(), from: this.#from, to: offset + stop });
        this.#state = "beforeAttribute";
        return end;
      }
    }
  }

  /** Returns the text that has been read and not taken. */
  take(): string {
    const text = this.#text;
    this.#text = "";
    return text;
  }

  /** Takes the text with the values of `attributes` rewritten. */
  rewritten(attributes: ReadonlySet<string> | undefined, rewrite: (value: string) => string): string {
    const text = this.take();
    let written = "";
    let at = 0;
    for (const { attribute, from, to } of this.#values) {
      if (attributes?.has(attribute) !== true) continue;
      written += text.slice(at, from) + rewrite(text.slice(from, to));
      at = to;
    }
    return written + text.slice(at);
  }
}

/** A name with its next part, as far as it can matter. */
function extended(name: string, text: string, from: number, to: number): string {
  return name + text.slice(from, Math.min(to, from + maxNameLength - name.length));
}
