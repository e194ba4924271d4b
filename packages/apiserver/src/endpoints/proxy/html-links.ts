import { Transform } from "node:stream";
import { StartTag } from "./start-tag.ts";

/** Attributes that hold a URL, by element. */
const linkAttributes: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  Object.entries({
    a: ["href"],
    applet: ["codebase"],
    area: ["href"],
    audio: ["src"],
    base: ["href"],
    blockquote: ["cite"],
    body: ["background"],
    button: ["formaction"],
    command: ["icon"],
    del: ["cite"],
    embed: ["src"],
    form: ["action"],
    frame: ["longdesc", "src"],
    head: ["profile"],
    html: ["manifest"],
    iframe: ["longdesc", "src"],
    img: ["longdesc", "src", "usemap"],
    input: ["src", "usemap", "formaction"],
    ins: ["cite"],
    link: ["href"],
    object: ["classid", "codebase", "data", "usemap"],
    q: ["cite"],
    script: ["src"],
    source: ["src"],
    video: ["poster", "src"],
  }).map(([element, attributes]) => [element, new Set(attributes)]),
);

/** Elements whose content is text, in which tags mean nothing. */
const textElements: ReadonlySet<string> = new Set([
  "iframe",
  "noembed",
  "noframes",
  "plaintext",
  "script",
  "style",
  "textarea",
  "title",
  "xmp",
]);

/**
 * Creates a stream that rewrites the links in HTML and passes everything else on byte for byte. The encoding must be a superset of ASCII.
 * `rewrite` gets the text of an attribute as it is in the document, and must return text that can take its place. Links in tags of more
 * than 64 KiB pass unchanged. The work is linear in the length of the document, however it is cut.
 */
export function createLinkRewriter(rewrite: (link: string) => string): Transform {
  const scanner = new HtmlScanner(rewrite);
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => done(null, Buffer.from(scanner.write(chunk.toString("latin1")), "latin1")),
    flush: (done) => done(null, Buffer.from(scanner.end(), "latin1")),
  });
}

class HtmlScanner {
  readonly #rewrite: (link: string) => string;
  /** Text at the end of a chunk that cannot be classified without the next one. Bounded by {@link maxEndLength}. */
  #kept = "";
  /** What ends the text that passes unchanged. Undefined: tags are looked for. */
  #end: RegExp | undefined;
  /** The start tag that the next text continues. */
  #tag: StartTag | undefined;

  constructor(rewrite: (link: string) => string) {
    this.#rewrite = rewrite;
  }

  write(text: string): string {
    return this.#scan(this.#kept + text, false);
  }

  end(): string {
    const written = this.#scan(this.#kept, true);
    // A tag that does not end is none.
    return written + (this.#tag?.take() ?? "");
  }

  #scan(text: string, isLast: boolean): string {
    let written = "";
    let at = 0;
    while (at < text.length) {
      const from = at;
      if (this.#tag !== undefined) {
        at = this.#tag.read(text, from);
        written += this.#tagText(this.#tag);
      } else if (this.#end !== undefined) {
        at = this.#endOf(this.#end, text, from, isLast);
        written += text.slice(from, at);
        if (this.#end !== undefined) break;
      } else {
        const open = text.indexOf("<", from);
        at = open < 0 ? text.length : open;
        if (open >= 0 && (isLast || !isUndecided(text, open))) at = this.#openMarkup(text, open);
        written += text.slice(from, at);
        if (open === at && this.#tag === undefined) break;
      }
    }
    this.#kept = text.slice(at);
    return written;
  }

  /** The part of a tag that can be passed on: all of it if it has ended or is too long. */
  #tagText(tag: StartTag): string {
    if (!tag.isEnded) return tag.isTooLong ? tag.take() : "";
    this.#tag = undefined;
    const { name } = tag;
    if (textElements.has(name)) this.#end = name === "plaintext" ? /(?!)/g : new RegExp(`</${name}(?=[\\t\\n\\f\\r />])`, "gi");
    return tag.rewritten(linkAttributes.get(name), this.#rewrite);
  }

  /** Enters the state of the markup at a `<`. Returns the position up to which the text passes. */
  #openMarkup(text: string, open: number): number {
    const start = text.slice(open, open + 4);
    if (/^<[a-z]/i.test(start)) {
      this.#tag = new StartTag();
      return open;
    }
    if (!/^<[!?/]/.test(start)) return open + 1;
    // The dashes of `<!-->` both begin and end a comment.
    this.#end = start === "<!--" ? /-->/g : />/g;
    return open + 2;
  }

  /** The position of `end`, which ends the text that passes unchanged, or else the position up to which there is none. */
  #endOf(end: RegExp, text: string, from: number, isLast: boolean): number {
    end.lastIndex = from;
    const found = end.exec(text);
    if (found === null) return isLast ? text.length : Math.max(from, text.length - maxEndLength);
    this.#end = undefined;
    return found.index;
  }
}

/** Whether the text after a `<` decides what it means. */
function isUndecided(text: string, open: number): boolean {
  const start = text.slice(open, open + 4);
  return start.length < 4 && "<!--".startsWith(start);
}

/** Maximum length of what ends a text: `</plaintext` and a character more. */
const maxEndLength = 12;
