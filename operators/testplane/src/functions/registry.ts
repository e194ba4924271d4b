import { parseJsonPath } from "@keelson/api-machinery/selectors";
import { fieldExtractor, fieldFunctions } from "./field-functions.ts";
import { suggestion } from "./closest-name.ts";
import type { CheckFunction, ExtractorFunction, Params, Parameter } from "./function.ts";
import { clusterExtractors, phaseFunctions } from "./phase-functions.ts";
import { workloadFunctions } from "./workload-functions.ts";

const checks = new Map<string, CheckFunction>(
  [...workloadFunctions, ...phaseFunctions, ...fieldFunctions].map((each) => [each.name, each]),
);
const extractors = new Map<string, ExtractorFunction>([fieldExtractor, ...clusterExtractors].map((each) => [each.name, each]));

/** Names of the check functions. */
export const checkNames: readonly string[] = [...checks.keys()];

/** Names of the extractor functions. They are not checks: a check that always holds tests nothing. */
export const extractorNames: readonly string[] = [...extractors.keys()];

/** The check of this name. */
export const findCheck = (name: string): CheckFunction | undefined => checks.get(name);

/** The extractor of this name. */
export const findExtractor = (name: string): ExtractorFunction | undefined => extractors.get(name);

/** Validates a call. Returns an error message that starts with the field, or `undefined`. */
export function validateCall(kind: "check" | "extractor", name: string, params: Params | undefined): string | undefined {
  const found = kind === "check" ? checks.get(name) : extractors.get(name);
  if (found === undefined) {
    if (kind === "check" && extractors.has(name)) {
      return `function: ${name} extracts a value and is not a check; use FieldEquals with path and value`;
    }
    return `function: unknown function ${JSON.stringify(name)}${suggestion(name, kind === "check" ? checkNames : extractorNames)}`;
  }
  for (const [key, parameter] of Object.entries(found.params)) {
    const value = params !== undefined && Object.hasOwn(params, key) ? params[key] : undefined;
    if (value === undefined) {
      if (parameter.required) return `params.${key}: required by ${name}`;
    } else if (!fits(value, parameter)) return `params.${key}: must be of type ${parameter.type}`;
  }
  for (const key of Object.keys(params ?? {})) {
    if (!Object.hasOwn(found.params, key)) return `params.${key}: unknown parameter of ${name}`;
  }
  return Object.hasOwn(found.params, "path") ? validatePath(params?.["path"]) : undefined;
}

function fits(value: unknown, { type }: Parameter): boolean {
  if (type === "any") return true;
  return type === "integer" ? Number.isSafeInteger(value) : typeof value === type;
}

function validatePath(path: unknown): string | undefined {
  try {
    const text = String(path);
    parseJsonPath(/^[.${]/.test(text) ? text : `.${text}`);
    return undefined;
  } catch (error) {
    return `params.path: ${error instanceof Error ? error.message : String(error)}`;
  }
}
