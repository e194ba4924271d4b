import type { Operator } from "@keelson/operator";
import { UsageError } from "../command-line.ts";

/** Splits a list of names at commas and refuses unknown ones. */
export function parseNames(flag: string, text: string, known: readonly string[]): ReadonlySet<string> {
  const chosen = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  const unknown = chosen.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new UsageError(`${flag}: there is no ${unknown.join(", ")}; there is ${known.join(", ")}`);
  if (chosen.length === 0) throw new UsageError(`${flag}: names none of ${known.join(", ")}`);
  return new Set(chosen);
}

/** The operators that `--only` names. */
export function selectOperators(text: string, operators: readonly Operator[]): readonly Operator[] {
  const chosen = parseNames(
    "--only",
    text,
    operators.map((operator) => operator.name),
  );
  return operators.filter((operator) => chosen.has(operator.name));
}
