import { Transform } from "node:stream";

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

/** Longer tags pass unchanged. */
const maxTagLength = 64 * 1024;

/**
 * Creates a stream that rewrites the links in HTML and passes everything else on byte for byte. The encoding must be a superset of ASCII.
 * `rewrite` gets the text of an attribute as it is in the document, and must return text that can take its place.
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
  /** What cannot be decided before more text arrives. */
  #kept = "";
  /** What ends the text that passes unchanged. Undefined: tags are looked for. */
  #end: RegExp | undefined;

  constructor(rewrite: (link: string) => string) {
    this.#rewrite = rewrite;
  }

  write(text: string): string {
    return this.#scan(this.#kept + text, false);
  }

  end(): string {
    return this.#scan(this.#kept, true);
  }

  #scan(text: string, isLast: boolean): string {
    let written = "";
    let at = 0;
    for (;;) {
      if (this.#end !== undefined) {
        const found = text.slice(at).search(this.#end);
        // The end may be cut anywhere.
        const next = found < 0 ? Math.max(at, isLast ? text.length : text.length - maxEndLength) : at + found;
        written += text.slice(at, next);
        at = next;
        if (found < 0) break;
        this.#end = undefined;
      }
      const open = text.indexOf("<", at);
      written += text.slice(at, open < 0 ? text.length : open);
      at = open < 0 ? text.length : open;
      if (open < 0) break;
      const step = this.#markup(text, open);
      if (step === undefined && !isLast && text.length - open < maxTagLength) break;
      written += step?.text ?? "<";
      at = step?.end ?? open + 1;
    }
    this.#kept = isLast ? "" : text.slice(at);
    return written;
  }

  /** The markup at a `<`; undefined if its end is missing. */
  #markup(text: string, open: number): { readonly text: string; readonly end: number } | undefined {
    const start = text.slice(open, open + 4);
    if (start.length < 4 && "<!--".startsWith(start)) return undefined;
    // The dashes of `<!-->` both begin and end a comment.
    if (start === "<!--") return this.#skip("<!", open, /-->/);
    if (/^<[!?/]/.test(start)) return this.#skip(start.slice(0, 2), open, />/);
    if (!/^<[a-z]/i.test(start)) return { text: "<", end: open + 1 };
    const tag = parseTag(text, open);
    if (tag === undefined) return undefined;
    if (textElements.has(tag.name)) this.#end = tag.name === "plaintext" ? /(?!)/ : new RegExp(`</${tag.name}(?=[\\s/>])`, "i");
    let written = "";
    let at = open;
    for (const { from, to } of tag.links) {
      written += text.slice(at, from) + this.#rewrite(text.slice(from, to));
      at = to;
    }
    return { text: written + text.slice(at, tag.end), end: tag.end };
  }

  #skip(text: string, open: number, end: RegExp): { readonly text: string; readonly end: number } {
    this.#end = end;
    return { text, end: open + text.length };
  }
}

/** Maximum length of what ends a text: `</plaintext` and a character more. */
const maxEndLength = 12;

/** A range of a text. */
interface Range {
  readonly from: number;
  readonly to: number;
}

interface Tag {
  /** In lower case. */
  readonly name: string;
  /** The values of the attributes that hold links, without quotes. */
  readonly links: readonly Range[];
  readonly end: number;
}

/** Parses the start tag at `open` by the rules of HTML's tokenizer; undefined if it does not end. */
function parseTag(text: string, open: number): Tag | undefined {
  const until = (pattern: RegExp, from: number): number => {
    pattern.lastIndex = from;
    return pattern.exec(text)?.index ?? text.length;
  };
  let at = until(/[\s/>]/g, open + 1);
  const name = text.slice(open + 1, at).toLowerCase();
  const attributes = linkAttributes.get(name);
  const links: Range[] = [];
  for (;;) {
    at = until(/[^\s/]/g, at);
    if (at >= text.length) return undefined;
    if (text[at] === ">") return { name, links, end: at + 1 };
    const nameEnd = until(/[\s/>=]/g, at + 1);
    const attribute = text.slice(at, nameEnd).toLowerCase();
    at = until(/\S/g, nameEnd);
    if (text[at] !== "=") continue;
    const start = until(/\S/g, at + 1);
    const quote = text[start];
    const isQuoted = quote === '"' || quote === "'";
    const from = isQuoted ? start + 1 : start;
    const to = until(quote === '"' ? /"/g : quote === "'" ? /'/g : /[\s>]/g, from);
    if (to >= text.length) return undefined;
    if (attributes?.has(attribute) === true) links.push({ from, to });
    at = isQuoted ? to + 1 : to;
  }
}
