import { type JsonPath, parseJsonPath } from "@keelson/api-machinery/selectors";

/** A compiled template of `-o jsonpath=TEMPLATE`. */
export interface JsonPathTemplate {
  /** Returns the text of the template for `root`. Paths that select nothing produce no text. */
  (root: unknown): string;
}

type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "path"; readonly select: JsonPath }
  | { readonly kind: "range"; readonly select: JsonPath; readonly parts: Part[] };

/**
 * Compiles a template as `kubectl -o jsonpath` does: text, and in braces paths, quoted text, and `range PATH` to `end`. Values of one path
 * are separated by spaces; strings are printed as they are and everything else as JSON. A template without braces is one path.
 *
 * **Errors**: a `SyntaxError` that says what is wrong.
 */
export function parseJsonPathTemplate(template: string): JsonPathTemplate {
  const parts: Part[] = [];
  const open: Part[][] = [parts];
  const add = (part: Part): void => void open.at(-1)?.push(part);
  for (const token of tokensOf(template.includes("{") ? template : `{${template}}`)) {
    if (token.kind === "text") {
      add(token);
      continue;
    }
    const { action } = token;
    const quoted = /^"(?:[^"\\]|\\.)*"$|^'(?:[^'\\]|\\.)*'$/s.test(action);
    if (quoted) add({ kind: "text", text: unescape(action.slice(1, -1)) });
    else if (action === "end") {
      if (open.length === 1) throw new SyntaxError("JSONPath template: {end} without {range}");
      open.pop();
    } else if (/^range\s/.test(action)) {
      const range: Part = { kind: "range", select: parseJsonPath(action.slice("range".length)), parts: [] };
      add(range);
      open.push(range.parts);
    } else add({ kind: "path", select: parseJsonPath(action) });
  }
  if (open.length > 1) throw new SyntaxError("JSONPath template: {range} without {end}");
  return (root) => render(parts, root);
}

function render(parts: readonly Part[], value: unknown): string {
  return parts
    .map((part) => {
      if (part.kind === "text") return part.text;
      const selected = part.select(value);
      if (part.kind === "path") return selected.map(textOf).join(" ");
      return selected.map((each) => render(part.parts, each)).join("");
    })
    .join("");
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

type Token = { readonly kind: "text"; readonly text: string } | { readonly kind: "action"; readonly action: string };

/** Splits a template at its braces. Braces in quotes belong to the quoted text. */
function tokensOf(template: string): readonly Token[] {
  const tokens: Token[] = [];
  const pattern = /\{((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^{}"'])*)\}|[^{}]+/gsy;
  while (pattern.lastIndex < template.length) {
    const at = pattern.lastIndex;
    const match = pattern.exec(template);
    if (match === null) throw new SyntaxError(`JSONPath template: unmatched brace or quote at ${at}`);
    const [text, action] = match;
    tokens.push(action === undefined ? { kind: "text", text } : { kind: "action", action: action.trim() });
  }
  return tokens;
}

const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
const unescape = (text: string): string => text.replace(/\\(.)/gs, (_, char: string) => escapes[char] ?? char);
