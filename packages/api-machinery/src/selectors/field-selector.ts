import { statusError, type StatusError } from "../protocol/status.ts";

/** A requirement on one field. */
export interface FieldRequirement {
  /** The path of the field: `metadata.name`, `spec.nodeName`. */
  readonly field: string;
  readonly operator: "=" | "!=";
  readonly value: string;
}

/** A compiled field selector. The server decides which fields a kind supports. */
export interface FieldSelector {
  /** All must hold. */
  readonly requirements: readonly FieldRequirement[];
  readonly isEmpty: boolean;
  /** `valueOf` returns the text of a field; an absent field counts as `""`. */
  matches(valueOf: (field: string) => string | undefined): boolean;
  /** Formats the selector for a `fieldSelector` parameter. */
  toString(): string;
}

/** Creates a selector from requirements. */
export function createFieldSelector(requirements: readonly FieldRequirement[]): FieldSelector {
  return {
    requirements,
    isEmpty: requirements.length === 0,
    matches: (valueOf) =>
      requirements.every(({ field, operator, value }) => ((valueOf(field) ?? "") === value) === (operator === "=")),
    toString: () => requirements.map(({ field, operator, value }) => `${field}${operator}${escapeValue(value)}`).join(","),
  };
}

/**
 * Parses a field selector: `metadata.name=a,status.phase!=Running`. In values, `\` escapes `,`, `=` and itself.
 *
 * **Errors**: a `StatusError` BadRequest with kube-apiserver's message.
 */
export function parseFieldSelector(text: string): FieldSelector {
  const requirements: FieldRequirement[] = [];
  for (const term of splitTerms(text).sort()) {
    if (term === "") continue;
    const match = /^(.*?)(!=|==|=)(.*)$/s.exec(term);
    if (!match) throw refusal(`invalid selector: '${text}'; can't understand '${term}'`);
    const [, field = "", operator, value = ""] = match;
    requirements.push({ field, operator: operator === "!=" ? "!=" : "=", value: unescapeValue(value) });
  }
  return createFieldSelector(requirements);
}

function refusal(message: string): StatusError {
  return statusError("BadRequest", message);
}

function splitTerms(text: string): string[] {
  const terms: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === ",") {
      terms.push(text.slice(start, at));
      start = at + 1;
    }
  }
  terms.push(text.slice(start));
  return terms;
}

function escapeValue(value: string): string {
  return value.replace(/[\\,=]/g, "\\$&");
}

function unescapeValue(value: string): string {
  let result = "";
  for (let at = 0; at < value.length; at++) {
    const char = value[at] ?? "";
    if (char === "\\") {
      const next = value[++at];
      if (next !== "\\" && next !== "," && next !== "=") {
        throw refusal(`invalid field selector: invalid escape sequence: \\${next ?? ""}`);
      }
      result += next;
    } else if (char === "=" || char === ",") {
      throw refusal(`invalid field selector: unescaped character in value: ${char.charCodeAt(0)}`);
    } else result += char;
  }
  return result;
}
