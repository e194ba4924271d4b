import {
  Choice,
  type Condition,
  Conditional,
  Expression,
  Merge,
  Splice,
  type Template,
  type TemplateItem,
  type TemplateMap,
  type ValuePath,
} from "./template.ts";

/**
 * Prints a template as YAML with the actions of Go templates, as Helm renders it. Values are inserted as JSON, which is valid YAML at
 * any indentation.
 */
export function printTemplate(template: Template): string {
  return `${blockLines(template, 0).join("\n")}\n`;
}

/** Prints a condition as the operand of `{{ if }}`. */
export function printCondition(condition: Condition): string {
  switch (condition.kind) {
    case "isSet":
      return valueOf(condition.path);
    case "equals":
      return `(eq ${valueOf(condition.path)} ${quoted(condition.value)})`;
    case "not":
      return `(not ${printCondition(condition.condition)})`;
    case "all":
      return `(and ${condition.conditions.map(printCondition).join(" ")})`;
    case "any":
      return `(or ${condition.conditions.map(printCondition).join(" ")})`;
  }
}

const valueOf = (path: ValuePath): string => `.Values.${path}`;

/** A string literal of Go. Ours contain no character that Go and JSON escape differently. */
const quoted = (literal: string): string => JSON.stringify(literal);

/** Keeps text from being read as an action. */
const escapeActions = (literal: string): string => literal.replaceAll("{{", '{{ "{{" }}');

const spaces = (depth: number): string => "  ".repeat(depth);

/** A template that fits on the line of its key or dash, or undefined if it needs lines of its own. */
function inline(template: Template): string | undefined {
  if (template instanceof Expression) return printExpression(template);
  if (template instanceof Choice) {
    const [whenTrue, whenFalse] = [inline(template.whenTrue), inline(template.whenFalse)];
    if (whenTrue === undefined || whenFalse === undefined) throw new TypeError("the branches of a choice must be scalars");
    return `{{ if ${printCondition(template.condition)} }}${whenTrue}{{ else }}${whenFalse}{{ end }}`;
  }
  if (template instanceof Splice) return `{{ toJson ${valueOf(template.path)} }}`;
  if (template instanceof Merge) return undefined;
  if (typeof template !== "object" || template === null) return escapeActions(JSON.stringify(template));
  if (isList(template)) return inlineList(template);
  return Object.keys(template).length === 0 ? "{}" : undefined;
}

/** The longest list that is printed on one line, in characters. */
const maxInlineLength = 100;

/** A short list of literals, such as the verbs of a rule. */
function inlineList(list: readonly TemplateItem[]): string | undefined {
  if (list.some((item) => typeof item === "object" && item !== null)) return undefined;
  const text = escapeActions(`[${list.map((item) => JSON.stringify(item)).join(", ")}]`);
  return text.length <= maxInlineLength ? text : undefined;
}

/** Depth of the fields of a CustomResourceDefinition. Most of their block lines would be indentation. */
const flowDepth = 9;

/** A deep map of literals, such as the schema of a field, on one line. */
function inlineMap(template: Template, depth: number): string | undefined {
  if (depth < flowDepth || typeof template !== "object" || template === null || isList(template)) return undefined;
  const entries = Object.entries(template).map(([key, value]: [string, unknown]) => {
    const isLiteral = typeof value !== "object" || value === null || (Array.isArray(value) && value.every(isScalar));
    return isLiteral ? `${printKey(key)}: ${escapeActions(JSON.stringify(value))}` : undefined;
  });
  return entries.includes(undefined) ? undefined : `{ ${entries.join(", ")} }`;
}

const isScalar = (value: unknown): boolean => typeof value !== "object" || value === null;

function printExpression({ parts }: Expression): string {
  const operands = parts.map((part) => {
    if (part.kind === "text") return quoted(part.text);
    return part.kind === "namespace" ? ".Release.Namespace" : valueOf(part.path);
  });
  if (operands.length === 1) return `{{ toJson ${operands[0]} }}`;
  // Unlike print, printf adds no spaces between operands.
  return `{{ toJson (printf ${quoted("%v".repeat(operands.length))} ${operands.join(" ")}) }}`;
}

function blockLines(template: Template, depth: number): string[] {
  const line = inline(template);
  if (line !== undefined) return [spaces(depth) + line];
  if (isList(template)) return template.flatMap((item) => itemLines(item, depth));
  if (!(template instanceof Merge)) return mapLines(template as TemplateMap, depth);
  const entry = `${spaces(depth)}{{ toJson $key }}: {{ toJson $entry }}`;
  return [...mapLines(template.map, depth), `{{- range $key, $entry := ${valueOf(template.path)} }}`, entry, "{{- end }}"];
}

function itemLines(item: TemplateItem, depth: number): string[] {
  if (item instanceof Conditional) return conditionLines(item.condition, itemLines(item.content, depth));
  if (item instanceof Splice) {
    return [`{{- range ${valueOf(item.path)} }}`, `${spaces(depth)}- {{ toJson . }}`, "{{- end }}"];
  }
  const line = inline(item);
  if (line !== undefined) return [`${spaces(depth)}- ${line}`];
  const lines = blockLines(item, depth + 1);
  const first = lines.findIndex((each) => !each.startsWith("{{"));
  // The dash needs an entry that always exists.
  if (first !== 0) throw new TypeError("the first entry of a map in a list must be unconditional");
  return lines.map((each, index) => (index === 0 ? `${spaces(depth)}- ${each.trimStart()}` : each));
}

function mapLines(map: TemplateMap, depth: number): string[] {
  return Object.entries(map).flatMap(([key, entry]) =>
    entry instanceof Conditional
      ? conditionLines(entry.condition, entryLines(key, entry.content, depth))
      : entryLines(key, entry, depth),
  );
}

function entryLines(key: string, template: Template, depth: number): string[] {
  const start = `${spaces(depth)}${printKey(key)}:`;
  const line = inline(template) ?? inlineMap(template, depth);
  return line === undefined ? [start, ...blockLines(template, depth + 1)] : [`${start} ${line}`];
}

const conditionLines = (condition: Condition, lines: readonly string[]): string[] => [
  `{{- if ${printCondition(condition)} }}`,
  ...lines,
  "{{- end }}",
];

/** Words that YAML 1.1 reads as something other than text. */
const reservedKey = /^(?:y|n|yes|no|on|off|true|false|null)$/i;

const printKey = (key: string): string =>
  /^[A-Za-z][\w./-]*$/.test(key) && !reservedKey.test(key) ? key : escapeActions(JSON.stringify(key));

const isList = (template: Template): template is readonly TemplateItem[] => Array.isArray(template);
