import { isJsonObject } from "@keelson/api-machinery";
import { type CelVariables, evaluateCel, validateCel } from "../assertions/cel-assertion.ts";
import { textOf } from "../functions/read.ts";

/** An expression in a text: `${{ params.size + 1 }}`. */
const expression = /\$\{\{(.*?)\}\}/gs;

/** A rendered value, or the first expression that could not be evaluated. */
export type Rendered<T> =
  | { readonly kind: "rendered"; readonly value: T }
  | { readonly kind: "error"; readonly message: string };

/** Whether a JSON value contains an expression. */
export function hasTemplate(value: unknown): boolean {
  if (typeof value === "string") return value.includes("${{");
  if (Array.isArray(value)) return value.some(hasTemplate);
  return isJsonObject(value) && Object.values(value).some(hasTemplate);
}

/**
 * Replaces `${{ CEL }}` in all texts of a JSON value. A text that consists of one expression becomes its value, with its type; within
 * other text, the value is inserted as text. Values without expressions are returned as they are.
 */
export function render<T>(value: T, variables: CelVariables): Rendered<T> {
  if (!hasTemplate(value)) return { kind: "rendered", value };
  try {
    return { kind: "rendered", value: renderValue(value, variables) as T };
  } catch (error) {
    if (error instanceof TemplateError) return { kind: "error", message: error.message };
    throw error;
  }
}

/** An expression that could not be evaluated. */
class TemplateError extends Error {
  override readonly name = "TemplateError";
  readonly code = "TemplateFailed";
}

function renderValue(value: unknown, variables: CelVariables): unknown {
  if (typeof value === "string") return renderText(value, variables);
  if (Array.isArray(value)) return value.map((each) => renderValue(each, variables));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, child]) => [String(renderText(name, variables)), renderValue(child, variables)]),
  );
}

function renderText(text: string, variables: CelVariables): unknown {
  const only = /^\s*\$\{\{((?:(?!\}\}).)*)\}\}\s*$/s.exec(text)?.[1];
  if (only !== undefined) return valueOf(only, variables);
  return text.replaceAll(expression, (_, source: string) => textOf(valueOf(source, variables)));
}

function valueOf(source: string, variables: CelVariables): unknown {
  const result = evaluateCel(source.trim(), variables);
  if (result.kind === "error") throw new TemplateError(`\${{${source}}}: ${result.message}`);
  return result.value;
}

/** Errors of the expressions in a JSON value, each starting with the path of its field. */
export function validateTemplates(value: unknown, path: string, variables: readonly string[]): readonly string[] {
  if (typeof value === "string") {
    return [...value.matchAll(expression)].flatMap(([all, source = ""]) => {
      const error = validateCel(source.trim(), variables, "any");
      return error === undefined ? [] : [`${path}: ${all}: ${error}`];
    });
  }
  if (Array.isArray(value)) return value.flatMap((each, index) => validateTemplates(each, `${path}[${index}]`, variables));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, child]) => validateTemplates(child, `${path}.${name}`, variables));
}
