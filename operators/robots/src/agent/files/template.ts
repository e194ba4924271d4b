import { RobotsError } from "../../robots-error.ts";

/** Maximum size of a rendered template. */
const maxRenderedBytes = 4 * 1024 * 1024;

/** What a template can refer to. Each function returns undefined for an unknown name. */
export interface TemplateData {
  /** A variable of the task's program. */
  readonly env: (name: string) => string | undefined;
  /** Metadata of the Job and its group. */
  readonly meta: (key: string) => string | undefined;
  /** A label of the robot. */
  readonly label: (key: string) => string | undefined;
  /** An attribute of the robot, as in constraints. */
  readonly attr: (name: string) => string | undefined;
}

/** A parsed template. */
export type Template = readonly TemplatePart[];

type TemplatePart =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "value";
      readonly source: keyof TemplateData;
      readonly name: string;
      readonly fallback?: string;
      readonly filters: readonly FilterName[];
      readonly line: number;
    };

const sources: readonly string[] = ["env", "meta", "label", "attr"] satisfies (keyof TemplateData)[];

const filters = {
  toJSON: (text: string) => JSON.stringify(text),
  toLower: (text: string) => text.toLowerCase(),
  toUpper: (text: string) => text.toUpperCase(),
  trimSpace: (text: string) => text.trim(),
} as const;
type FilterName = keyof typeof filters;

/**
 * Parses a template, a small part of Go's syntax: `{{ env "NAME" }}`, `meta`, `label` and `attr` likewise, with an optional second
 * argument as the default, filters (`| toJSON`), comments, and `{{-` and `-}}` to trim white space.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidTemplate`, which names the line.
 */
export function parseTemplate(text: string, delimiters: { readonly left: string; readonly right: string }): Template {
  const { left, right } = delimiters;
  const parts: TemplatePart[] = [];
  let trimsNext = false;
  let line = 1;
  let counted = 0;
  for (let at = 0; at < text.length; ) {
    const begin = text.indexOf(left, at);
    const literal = text.slice(at, begin === -1 ? undefined : begin);
    const isTrimmed = begin !== -1 && /^-\s/.test(text.slice(begin + left.length, begin + left.length + 2));
    const start = trimsNext ? literal.trimStart() : literal;
    const kept = isTrimmed ? start.trimEnd() : start;
    if (kept !== "") parts.push({ kind: "text", text: kept });
    if (begin === -1) break;
    // Counted from the last action: the text may come from a file that a program writes.
    line += newlinesIn(text.slice(counted, begin));
    counted = begin;
    const end = text.indexOf(right, begin + left.length);
    if (end === -1) throw invalid(line, `${left} is not closed`);
    const inside = text.slice(begin + left.length + (isTrimmed ? 1 : 0), end);
    trimsNext = /\s-$/.test(inside);
    const action = (trimsNext ? inside.slice(0, -1) : inside).trim();
    if (!/^\/\*.*\*\/$/s.test(action)) parts.push(parseAction(action, line));
    at = end + right.length;
  }
  return parts;
}

/**
 * The text of a template with its values.
 *
 * **Errors**: {@link RobotsError} with the code `InvalidTemplate` if a value is unknown and has no default, or if the result is larger than
 * 4 MiB.
 */
export function renderTemplate(template: Template, data: TemplateData): string {
  let bytes = 0;
  let line = 1;
  const texts: string[] = [];
  for (const part of template) {
    if (part.kind === "value") line = part.line;
    const text = part.kind === "text" ? part.text : valueOf(part, data);
    bytes += Buffer.byteLength(text);
    if (bytes > maxRenderedBytes) throw invalid(line, "the rendered template is larger than 4 MiB");
    texts.push(text);
  }
  return texts.join("");
}

function valueOf(
  { source, name, fallback, line, filters: applied }: TemplatePart & { readonly kind: "value" },
  data: TemplateData,
): string {
  const value = data[source](name) ?? fallback;
  if (value === undefined)
    throw invalid(line, `${source} ${JSON.stringify(name)} is not known; give a default as second argument`);
  return applied.reduce((result, filter) => filters[filter](result), value);
}

/** Whether the result can change while the task runs. */
export function isDynamic(template: Template): boolean {
  return template.some((part) => part.kind === "value" && (part.source === "label" || part.source === "attr"));
}

function parseAction(action: string, line: number): TemplatePart {
  const tokens = tokensOf(action, line);
  const [source = "", name, fallback] = tokens.slice(0, 3);
  if (!sources.includes(source)) {
    throw invalid(line, `${JSON.stringify(source.slice(0, 50))} is not a known function; known are ${sources.join(", ")}`);
  }
  const pipes = tokens.indexOf("|");
  const args = (pipes === -1 ? tokens : tokens.slice(0, pipes)).slice(1);
  if (args.length < 1 || args.length > 2 || !args.every(isText)) {
    throw invalid(line, `${source} must be followed by one or two strings in quotes`);
  }
  const found = pipes === -1 ? [] : filtersOf(tokens.slice(pipes), line);
  return {
    kind: "value",
    source: source as keyof TemplateData,
    name: unquote(name ?? ""),
    ...(args.length === 2 ? { fallback: unquote(fallback ?? "") } : {}),
    filters: found,
    line,
  };
}

function filtersOf(tokens: readonly string[], line: number): readonly FilterName[] {
  const found: FilterName[] = [];
  for (let at = 0; at < tokens.length; at += 2) {
    const name = tokens[at + 1] ?? "";
    if (tokens[at] !== "|" || !Object.hasOwn(filters, name)) {
      throw invalid(line, `| must be followed by one of ${Object.keys(filters).join(", ")}`);
    }
    found.push(name as FilterName);
  }
  return found;
}

/** Names, quoted strings, and `|`. */
function tokensOf(action: string, line: number): readonly string[] {
  const tokens: string[] = [];
  const pattern = /\s*(?:([A-Za-z]\w*)|("(?:[^"\\]|\\.)*")|(`[^`]*`)|(\|))/y;
  let at = 0;
  while (at < action.length && action.slice(at).trim() !== "") {
    pattern.lastIndex = at;
    const match = pattern.exec(action);
    if (match === null) throw invalid(line, `${JSON.stringify(action.slice(at, at + 50))} is not supported`);
    tokens.push(match[0].trim());
    at = pattern.lastIndex;
  }
  return tokens;
}

const isText = (token: string): boolean => token.startsWith('"') || token.startsWith("`");

function unquote(token: string): string {
  const inside = token.slice(1, -1);
  if (token.startsWith("`")) return inside;
  const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
  return inside.replace(/\\(.)/gs, (_, character: string) => escapes[character] ?? character);
}

const newlinesIn = (text: string): number => text.split("\n").length - 1;

const invalid = (line: number, problem: string): RobotsError => new RobotsError("InvalidTemplate", `line ${line}: ${problem}`);
