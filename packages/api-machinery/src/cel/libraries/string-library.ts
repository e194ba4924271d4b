import type { Environment } from "@marcbachmann/cel-js";
import { compilePattern } from "../../schema/pattern.ts";
import { CelError } from "../cel-error.ts";

/** The name that `matches` is registered under: cel-js has its own, with JavaScript's backtracking expressions. */
export const linearMatches = "matchesPattern";

/** Registers the string functions of CEL's extensions and Kubernetes. */
export function registerStringLibrary(environment: Environment): void {
  environment
    .registerFunction(`string.${linearMatches}(string): bool`, (text: string, pattern: string) =>
      compilePattern(pattern).test(text),
    )
    .registerFunction(`${linearMatches}(string, string): bool`, (text: string, pattern: string) =>
      compilePattern(pattern).test(text),
    )
    .registerFunction(
      "string.find(string): string",
      (text: string, pattern: string) => compilePattern(pattern).find(text, 1)[0] ?? "",
    )
    .registerFunction("string.findAll(string): list<string>", (text: string, pattern: string) =>
      compilePattern(pattern).find(text),
    )
    .registerFunction("string.findAll(string, int): list<string>", (text: string, pattern: string, limit: bigint) =>
      compilePattern(pattern).find(text, limit < 0n ? undefined : Number(limit)),
    )
    .registerFunction("string.charAt(int): string", (text: string, index: bigint) => {
      const characters = [...text];
      if (index < 0n || index > characters.length) throw new CelError("OutOfRange", `index out of range: ${index}`);
      return characters[Number(index)] ?? "";
    })
    .registerFunction("string.replace(string, string): string", (text: string, from: string, to: string) =>
      text.split(from).join(to),
    )
    .registerFunction("string.replace(string, string, int): string", replaceSome)
    .registerFunction("string.reverse(): string", (text: string) => [...text].reverse().join(""))
    .registerFunction("string.format(list): string", formatText);
}

function replaceSome(text: string, from: string, to: string, limit: bigint): string {
  if (limit < 0n) return text.split(from).join(to);
  const parts = text.split(from);
  const count = Math.min(Number(limit), parts.length - 1);
  return (
    parts.slice(0, count + 1).join(to) +
    parts
      .slice(count + 1)
      .map((part) => from + part)
      .join("")
  );
}

/** CEL's `format` (cel-go ext.Strings): `%s %d %f %e %b %x %X %o %%`. */
function formatText(template: string, values: readonly unknown[]): string {
  let next = 0;
  return template.replaceAll(/%(?:\.(\d+))?([a-zA-Z%])/g, (_all, precision: string | undefined, verb: string) => {
    if (verb === "%") return "%";
    if (next >= values.length) throw new CelError("OutOfRange", `index ${next} out of range`);
    const value = values[next++];
    switch (verb) {
      case "s":
        return textOf(value);
      case "d":
        return String(value);
      case "f":
        return Number(value).toFixed(Number(precision ?? 6));
      case "e":
        return Number(value).toExponential(Number(precision ?? 6));
      case "b":
        return typeof value === "boolean" ? (value ? "1" : "0") : BigInt(Number(value)).toString(2);
      case "o":
        return BigInt(Number(value)).toString(8);
      case "x":
      case "X": {
        const text = typeof value === "string" ? Buffer.from(value).toString("hex") : BigInt(Number(value)).toString(16);
        return verb === "X" ? text.toUpperCase() : text;
      }
      default:
        throw new CelError(
          "InvalidArgument",
          `could not parse formatting clause: unrecognized formatting clause ${JSON.stringify(verb)}`,
        );
    }
  });
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join(", ")}]`;
  if (value instanceof Map) return `{${[...value].map(([key, item]) => `${textOf(key)}: ${textOf(item)}`).join(", ")}}`;
  if (value instanceof Date) return value.toISOString().replace(/\.000Z$/, "Z");
  return value === null ? "null" : String(value);
}
