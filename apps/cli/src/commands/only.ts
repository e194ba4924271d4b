import { UsageError } from "@keelson/operator/flags";

/** Parses a comma-separated list of names such as the value of `--only`. Throws a {@link UsageError} for unknown names. */
export function parseNames(flag: string, text: string, known: readonly string[]): ReadonlySet<string> {
  const names = text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw new UsageError(`${flag}: unknown name ${unknown.join(", ")}: must be one or more of ${known.join(", ")}`);
  if (names.length === 0) throw new UsageError(`${flag}: must name at least one of ${known.join(", ")}`);
  return new Set(names);
}
