import { isJsonObject, type JsonObject, setOwn } from "@keelson/api-machinery";

/** Values for `${...}`: `run` and the namespaces by name, and the response of each step under `steps`. */
export interface Variables {
  readonly [name: string]: unknown;
  readonly steps: Readonly<Record<string, unknown>>;
}

/** A variable without a value. */
export class MissingVariable extends Error {
  constructor(reference: string) {
    super(`no value for \${${reference}}`);
    this.name = "MissingVariable";
  }
}

const variable = /\$\{([^}]+)\}/g;
const nothingBut = /^\$\{([^}]+)\}$/;

/** `value` with its variables replaced, also in keys. A string that is exactly one variable takes the type of its value. */
export function substitute(value: unknown, variables: Variables): unknown {
  if (typeof value === "string") {
    const whole = nothingBut.exec(value)?.[1];
    if (whole !== undefined) return structuredClone(lookUp(variables, whole));
    return substituteText(value, variables);
  }
  if (Array.isArray(value)) return value.map((item) => substitute(item, variables));
  if (!isJsonObject(value)) return value;
  const result: JsonObject = {};
  for (const [key, child] of Object.entries(value)) {
    setOwn(result, substituteText(key, variables), substitute(child, variables));
  }
  return result;
}

/** A string with its variables replaced as text. */
export function substituteText(text: string, variables: Variables): string {
  return text.replaceAll(variable, (_all, reference: string) => {
    const value = lookUp(variables, reference);
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

function lookUp(variables: Variables, reference: string): unknown {
  let value: unknown = variables;
  for (const part of reference.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) throw new MissingVariable(reference);
    value = (value as Record<string, unknown>)[part];
  }
  if (value === undefined) throw new MissingVariable(reference);
  return value;
}
