import { stringify } from "yaml";

/** A value in a template. `undefined` stands for a missing key: see {@link functions}. */
export type Value = unknown;

/** A failed function call. The renderer adds the position. */
export class FunctionError extends Error {
  override readonly name = "FunctionError";
  readonly code = "Function";
}

const fail = (message: string): never => {
  throw new FunctionError(message);
};

/** Truth as in Go templates: false, 0, "", nil and empty lists and maps are false. */
export function isTruthy(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === "object" && value !== null) {
    for (const key in value) if (Object.hasOwn(value, key)) return true;
    return false;
  }
  return Boolean(value);
}

/** Formats a value like `{{ }}`. */
export function print(value: Value): string {
  if (value === undefined) return fail("key not found");
  if (value === null) return "<nil>";
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (Array.isArray(value)) return `[${value.map(print).join(" ")}]`;
  const entries = Object.entries(value as object).sort(([a], [b]) => (a < b ? -1 : 1));
  return `map[${entries.map(([key, each]) => `${key}:${print(each)}`).join(" ")}]`;
}

/** The own field or element `key` of a value, or undefined. */
export function lookUp(value: Value, key: Value): Value {
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value)) {
    return typeof key === "number" && Number.isInteger(key) ? (value as readonly Value[])[key] : undefined;
  }
  if (typeof value !== "object") return fail(`${JSON.stringify(value)} has no fields`);
  return Object.hasOwn(value, String(key)) ? (value as Record<string, Value>)[String(key)] : undefined;
}

function text(value: Value): string {
  return typeof value === "string" ? value : print(value);
}

function number(value: Value): number {
  const result =
    typeof value === "number" ? value : Number(typeof value === "string" && value.trim() !== "" ? value : Number.NaN);
  return Number.isFinite(result) ? result : fail(`${JSON.stringify(value)} is not a number`);
}

function compare(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "string" && typeof b === "string") return a < b ? -1 : a > b ? 1 : 0;
  return fail(`${JSON.stringify(a)} and ${JSON.stringify(b)} cannot be compared`);
}

function isEqual(a: Value, b: Value): boolean {
  return [a, b].some((value) => typeof value === "object" && value !== null)
    ? fail("maps and lists cannot be compared")
    : a === b;
}

function indent(width: number, value: string): string {
  if (!(width >= 0 && width <= 1000)) fail("indent: must be between 0 and 1000");
  const margin = " ".repeat(width);
  return value
    .split("\n")
    .map((line) => margin + line)
    .join("\n");
}

function printf(format: Value, values: readonly Value[]): string {
  let used = 0;
  return text(format).replaceAll(/%(%|-?\d*\.?\d*[sdvqft])/g, (_, verb: string) => {
    if (verb === "%") return "%";
    if (used >= values.length) return fail(`printf: ${JSON.stringify(format)} has more verbs than values`);
    const value = values[used++];
    const kind = verb.at(-1);
    const [width = "", precision] = verb.slice(0, -1).split(".");
    const shown =
      kind === "d"
        ? String(Math.trunc(number(value)))
        : kind === "q"
          ? JSON.stringify(text(value))
          : kind === "f"
            ? number(value).toFixed(Math.min(100, Number(precision || 6)))
            : text(value);
    const size = Math.min(1000, Math.abs(Number(width)));
    return width.startsWith("-") ? shown.padEnd(size) : shown.padStart(size, width.startsWith("0") ? "0" : " ");
  });
}

function object(pairs: readonly Value[]): Value {
  if (pairs.length % 2 !== 0) fail("dict: must have an even number of arguments");
  const entries: [string, Value][] = [];
  for (let index = 0; index < pairs.length; index += 2) entries.push([text(pairs[index]), pairs[index + 1]]);
  return Object.fromEntries(entries);
}

interface Definition {
  readonly minArgs: number;
  readonly maxArgs: number;
  /** Accepts a missing key as an argument. Other functions reject it, so that a typo does not render as nothing. */
  readonly takesMissing?: boolean;
  readonly run: (...values: readonly Value[]) => Value;
}

const many = Number.POSITIVE_INFINITY;
const define = (minArgs: number, maxArgs: number, run: Definition["run"]): Definition => ({ minArgs, maxArgs, run });
const lenient = (minArgs: number, maxArgs: number, run: Definition["run"]): Definition => ({
  minArgs,
  maxArgs,
  run,
  takesMissing: true,
});

/**
 * The functions of Go templates and Helm (sprig) that plugins use. All are pure.
 * `and` and `or` stop early and `include` renders, so the renderer implements them.
 */
const functions: Readonly<Record<string, Definition>> = {
  not: lenient(1, 1, (value) => !isTruthy(value)),
  default: lenient(2, 2, (fallback, value) => (isTruthy(value) ? value : fallback)),
  coalesce: lenient(1, many, (...values) => values.find(isTruthy) ?? null),
  empty: lenient(1, 1, (value) => !isTruthy(value)),
  ternary: lenient(3, 3, (yes, no, condition) => (isTruthy(condition) ? yes : no)),
  required: lenient(2, 2, (message, value) =>
    value === undefined || value === null || value === "" ? fail(text(message)) : value,
  ),
  fail: define(1, 1, (message) => fail(text(message))),
  eq: define(2, many, (first, ...others) => others.some((other) => isEqual(first, other))),
  ne: define(2, 2, (a, b) => !isEqual(a, b)),
  lt: define(2, 2, (a, b) => compare(a, b) < 0),
  le: define(2, 2, (a, b) => compare(a, b) <= 0),
  gt: define(2, 2, (a, b) => compare(a, b) > 0),
  ge: define(2, 2, (a, b) => compare(a, b) >= 0),
  index: define(1, many, (value, ...keys) =>
    keys.reduce<Value>((found, key) => {
      const inner = lookUp(found, key);
      if (Array.isArray(found) && inner === undefined) fail(`index ${text(key)} is out of range`);
      return inner;
    }, value),
  ),
  len: define(1, 1, (value) =>
    typeof value === "string" || Array.isArray(value)
      ? value.length
      : typeof value === "object" && value !== null
        ? Object.keys(value).length
        : fail("len: has no length"),
  ),
  hasKey: define(2, 2, (value, key) => typeof value === "object" && value !== null && Object.hasOwn(value, text(key))),
  get: define(2, 2, (value, key) => lookUp(value, key) ?? ""),
  keys: define(1, 1, (value) => Object.keys(value as object).sort()),
  dict: define(0, many, (...pairs) => object(pairs)),
  list: define(0, many, (...values) => values),
  until: define(1, 1, (count) =>
    number(count) <= 10_000
      ? Array.from({ length: Math.max(0, number(count)) }, (_, each) => each)
      : fail("until: must be at most 10000"),
  ),
  join: define(2, 2, (separator, values) => (Array.isArray(values) ? values.map(text).join(text(separator)) : text(values))),
  print: define(0, many, (...values) => values.map(text).join("")),
  println: define(0, many, (...values) => `${values.map(text).join(" ")}\n`),
  printf: define(1, many, (format, ...values) => printf(format, values)),
  quote: define(0, many, (...values) => values.map((value) => JSON.stringify(text(value))).join(" ")),
  squote: define(0, many, (...values) => values.map((value) => `'${text(value)}'`).join(" ")),
  toString: define(1, 1, text),
  toYaml: define(1, 1, (value) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false }).replace(/\n$/, "")),
  toJson: define(1, 1, (value) => JSON.stringify(value)),
  indent: define(2, 2, (width, value) => indent(number(width), text(value))),
  nindent: define(2, 2, (width, value) => `\n${indent(number(width), text(value))}`),
  trim: define(1, 1, (value) => text(value).trim()),
  trimSuffix: define(2, 2, (suffix, value) =>
    text(value).endsWith(text(suffix)) ? text(value).slice(0, text(value).length - text(suffix).length) : text(value),
  ),
  trimPrefix: define(2, 2, (prefix, value) =>
    text(value).startsWith(text(prefix)) ? text(value).slice(text(prefix).length) : text(value),
  ),
  trunc: define(2, 2, (length, value) => text(value).slice(0, Math.max(0, number(length)))),
  replace: define(3, 3, (from, to, value) => text(value).replaceAll(text(from), () => text(to))),
  contains: define(2, 2, (part, value) => text(value).includes(text(part))),
  hasPrefix: define(2, 2, (part, value) => text(value).startsWith(text(part))),
  hasSuffix: define(2, 2, (part, value) => text(value).endsWith(text(part))),
  upper: define(1, 1, (value) => text(value).toUpperCase()),
  lower: define(1, 1, (value) => text(value).toLowerCase()),
  b64enc: define(1, 1, (value) => Buffer.from(text(value)).toString("base64")),
  int: define(1, 1, (value) => Math.trunc(number(value))),
  add: define(1, many, (...values) => values.map(number).reduce((a, b) => a + b)),
  sub: define(2, 2, (a, b) => number(a) - number(b)),
  mul: define(1, many, (...values) => values.map(number).reduce((a, b) => a * b)),
  div: define(2, 2, (a, b) => (number(b) === 0 ? fail("division by zero") : Math.trunc(number(a) / number(b)))),
};

/** Whether a function exists. */
export function isFunction(name: string): boolean {
  return ["and", "or", "include"].includes(name) || Object.hasOwn(functions, name);
}

/**
 * Calls a function. `nameOf` is a prefix for the error of a missing argument.
 *
 * **Errors**: a {@link FunctionError} for invalid arguments.
 */
export function callFunction(name: string, values: readonly Value[], nameOf: (index: number) => string = () => ""): Value {
  const definition = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (definition === undefined) return fail(`function ${JSON.stringify(name)} not found`);
  const { minArgs, maxArgs, run, takesMissing } = definition;
  if (values.length < minArgs || values.length > maxArgs) {
    fail(
      `${name}: must have ${minArgs === maxArgs ? minArgs : `${minArgs} to ${maxArgs === many ? "any number of" : maxArgs}`} arguments, has ${values.length}`,
    );
  }
  const missing = takesMissing ? -1 : values.indexOf(undefined);
  if (missing >= 0) fail(`${name}: argument ${missing + 1}: ${nameOf(missing)}key not found`);
  return run(...values);
}
