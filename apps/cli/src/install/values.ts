import { isJsonObject, type JsonObject, type JsonValue, jsonEquals } from "@keelson/api-machinery";
import type { Operator } from "@keelson/operator";
import { UsageError } from "@keelson/operator/flags";
import { Value } from "typebox/value";
import { defaultValues, valuesSchema } from "./values-schema.ts";

/** Options of {@link readValues}. */
export interface ReadValuesOptions {
  readonly operators: readonly Operator[];
  readonly version: string;
  /** Values in ascending priority. Maps are merged, everything else replaces. */
  readonly sources: readonly JsonValue[];
}

/** Values that were checked. */
export interface Values {
  readonly values: JsonObject;
  /** Whether an operator is enabled. */
  isEnabled(name: string): boolean;
}

/**
 * Merges values with the defaults, by Helm's rules, and checks them.
 *
 * **Errors**: a `UsageError` that names the value and what is allowed.
 */
export function readValues({ operators, version, sources }: ReadValuesOptions): Values {
  const schema = valuesSchema(operators, version);
  let values: JsonValue = defaultValues(schema);
  for (const source of sources) {
    if (!isJsonObject(source)) throw new UsageError("--values: a file must contain a map of values");
    values = merge(values, source);
  }
  const [error] = Value.Errors(schema, values).filter(({ keyword }) => keyword !== "boolean" && keyword !== "anyOf");
  if (error !== undefined) throw new UsageError(`--values: ${describe(error)}`);
  if (!isJsonObject(values)) throw new UsageError("--values: must be a map");
  const checked = values;
  requireRelated(checked);
  return {
    values: checked,
    isEnabled: (name) => jsonEquals(at(checked, name, "enabled"), true),
  };
}

/** Merges maps recursively; null removes a key, as in Helm. */
function merge(base: JsonValue, over: JsonValue): JsonValue {
  if (!isJsonObject(base) || !isJsonObject(over)) return over;
  const result: JsonObject = { ...base };
  for (const [key, each] of Object.entries(over)) {
    if (each === null) delete result[key];
    else result[key] = merge(result[key] ?? null, each);
  }
  return result;
}

interface SchemaError {
  readonly keyword: string;
  readonly instancePath: string;
  readonly message: string;
  readonly params: object;
}

function describe({ keyword, instancePath, message, params }: SchemaError): string {
  const path = instancePath.slice(1).replaceAll("/", ".") || "values";
  if (keyword === "additionalProperties" && "additionalProperties" in params) {
    const names = Array.isArray(params.additionalProperties) ? params.additionalProperties.map(String) : [];
    return `unknown value ${names.map((name) => (path === "values" ? name : `${path}.${name}`)).join(", ")}; see charts/keelson/README.md`;
  }
  if (keyword === "enum" && "allowedValues" in params && Array.isArray(params.allowedValues)) {
    return `${path}: must be one of ${params.allowedValues.join(", ")}`;
  }
  return `${path}: ${message}`;
}

/** Values that other values require. */
function requireRelated(values: JsonObject): void {
  const kind = at(values, "robots", "broker", "kind");
  const requireValue = (...path: readonly string[]): void => {
    if (at(values, ...path) === "")
      throw new UsageError(`--values: ${path.join(".")}: required for robots.broker.kind ${String(kind)}`);
  };
  if (at(values, "robots", "enabled") !== true || kind === "embedded") return;
  if (kind === "external") requireValue("robots", "broker", "url");
  else {
    requireValue("robots", "broker", "credentialsSecret");
    requireValue("robots", "broker", "mosquitto", "passwordSecret");
  }
}

function at(values: JsonValue, ...path: readonly string[]): JsonValue | undefined {
  let current: JsonValue | undefined = values;
  for (const key of path) current = isJsonObject(current) ? current[key] : undefined;
  return current;
}
