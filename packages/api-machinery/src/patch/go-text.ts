import { isJsonObject } from "../objects/json.ts";

/**
 * Formats a JSON value as Go's `%v`, which kube-apiserver's messages use for parts of patches: `map[image:x ports:[1 2]]`.
 */
export function goText(value: unknown): string {
  if (value === null || value === undefined) return "<nil>";
  if (Array.isArray(value)) return `[${value.map(goText).join(" ")}]`;
  if (!isJsonObject(value)) return String(value);
  const names = Object.keys(value).sort();
  return `map[${names.map((name) => `${name}:${goText(value[name])}`).join(" ")}]`;
}

/** Returns the Go type that a JSON value decodes to. */
export function goType(value: unknown): string {
  if (value === null || value === undefined) return "<nil>";
  if (Array.isArray(value)) return "[]interface {}";
  if (typeof value === "number") return Number.isInteger(value) ? "int64" : "float64";
  if (typeof value === "boolean") return "bool";
  return typeof value === "string" ? "string" : "map[string]interface {}";
}
