import { isJsonObject } from "@keelson/api-machinery";

/** A JSON value as CEL. */
export function celLiteral(value: unknown): string {
  if (typeof value === "string") {
    const text = value.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n").replaceAll("\r", "\\r");
    return `'${text}'`;
  }
  if (Array.isArray(value)) return `[${value.map(celLiteral).join(", ")}]`;
  if (!isJsonObject(value)) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value).map(([name, child]) => `${celLiteral(name)}: ${celLiteral(child)}`);
  // Two closing braces would end an expression in a text.
  return `{${fields.join(", ")} }`;
}

/** Names that CEL reserves. */
const reserved = new Set(["in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"]);
const moreReserved = new Set(["package", "namespace", "return", "var", "void", "while", "true", "false", "null"]);

const isIdentifier = (name: string): boolean => /^[A-Za-z_]\w*$/.test(name) && !reserved.has(name) && !moreReserved.has(name);

/** CEL of a field. */
export const memberOf = (value: string, name: string): string =>
  isIdentifier(name) ? `${value}.${name}` : `${value}[${celLiteral(name)}]`;

/** CEL of whether a value has a field. */
const hasMember = (value: string, name: string): string =>
  isIdentifier(name) ? `has(${value}.${name})` : `${celLiteral(name)} in ${value}`;

/** A CEL expression as an operand: in parentheses if it has an operator outside of parentheses, brackets, braces and literals. */
export function operandOf(cel: string): string {
  let rest = cel.replaceAll(/'(?:\\.|[^'\\])*'/gs, "");
  for (let before = ""; before !== rest; ) {
    before = rest;
    rest = rest.replaceAll(/\([^()[\]{}]*\)|\[[^()[\]{}]*\]|\{[^()[\]{}]*\}/g, "");
  }
  return /^[\w.]*$/.test(rest) ? cel : `(${cel})`;
}

/**
 * CEL that is true if a value has every field of a partial value: lists have the same length and match element by element, and null means
 * absent. Fields that are missing make it false, not fail.
 */
export function matchesCel(value: string, partial: unknown): string {
  if (Array.isArray(partial)) {
    const parts = partial.map((each, index) => matchesCel(`${value}[${index}]`, each));
    return [`size(${value}) == ${partial.length}`, ...parts].join(" && ");
  }
  if (!isJsonObject(partial)) return `${value} == ${celLiteral(partial)}`;
  const parts = Object.entries(partial).map(([name, child]) =>
    child === null
      ? `!(${hasMember(value, name)})`
      : `${hasMember(value, name)} && ${matchesCel(memberOf(value, name), child)}`,
  );
  return parts.length === 0 ? "true" : parts.join(" && ");
}
