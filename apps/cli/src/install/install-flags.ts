import { readFileSync } from "node:fs";
import type { JsonValue } from "@keelson/api-machinery";
import type { FlagValues, Operator } from "@keelson/operator";
import { durationFlag, listFlag, pairsFlag, switchFlag, textFlag, UsageError } from "@keelson/operator/flags";
import { parse, YAMLParseError } from "yaml";
import { parseNames } from "../commands/only.ts";
import { defaultNamespace } from "./manifest-file.ts";

/** `--namespace`. */
export const namespaceFlag = textFlag({
  name: "namespace",
  short: "n",
  value: "NAME",
  description: "namespace of the operators",
  default: defaultNamespace,
});

/** `--only`. */
export const onlyFlag = textFlag({
  name: "only",
  value: "NAMES",
  description: "operators to act on, separated by commas; others stay as they are (default: all)",
});

/** `--values`. */
export const valuesFlag = listFlag({
  name: "values",
  value: "FILE",
  description: "YAML file with values of the chart (repeatable; later files win)",
});

/** `--set`. */
export const setFlag = pairsFlag({
  name: "set",
  value: "PATH=VALUE",
  description: "set one value, such as robots.replicas=0 (repeatable; wins over --values)",
});

/** `--dry-run`. */
export const dryRunFlag = switchFlag({ name: "dry-run", description: "change nothing; print what would change" });

/** `--timeout`. */
export const timeoutFlag = durationFlag({
  name: "timeout",
  description: "how long to wait for completion; 0s does not wait",
  default: "5m",
});

/** The operators that `--only` selects. */
export function selectOperators(flags: FlagValues, operators: readonly Operator[]): readonly Operator[] {
  const only = onlyFlag.read(flags);
  if (only === undefined) return operators;
  const names = parseNames(
    "--only",
    only,
    operators.map(({ name }) => name),
  );
  return operators.filter(({ name }) => names.has(name));
}

/** Reads `--values` and `--set`, in ascending priority. */
export function readValueSources(flags: FlagValues): readonly JsonValue[] {
  const files = valuesFlag.read(flags).map((file): JsonValue => {
    try {
      return (parse(readFileSync(file, "utf8")) ?? {}) as JsonValue;
    } catch (error) {
      const reason = error instanceof YAMLParseError || error instanceof Error ? error.message : String(error);
      throw new UsageError(`--values: ${file}: ${reason}`, { cause: error });
    }
  });
  const single = setFlag.read(flags).map(([path, text]) =>
    path
      .split(".")
      .reverse()
      .reduce<JsonValue>((inner, key) => ({ [key]: inner }), parseScalar(text)),
  );
  return [...files, ...single];
}

/** A value as YAML reads it; text that is not YAML stays text. */
function parseScalar(text: string): JsonValue {
  try {
    return text === "" ? "" : (parse(text) as JsonValue);
  } catch {
    return text;
  }
}
