import { isJsonObject } from "@keelson/api-machinery";
import { AgentError } from "./agent-error.ts";

/* Checks of values that an agent sent. They know nothing of the protocol. */

/** Returns the value at `path` as `T`. Throws `InvalidAnswer`, which names the path, if it is not one. */
export type Check<T> = (value: unknown, path: string) => T;

type Shape = Readonly<Record<string, Check<unknown>>>;
type Read<S extends Shape> = { readonly [Name in keyof S]: ReturnType<S[Name]> };

function invalid(path: string, rule: string): never {
  throw new AgentError("InvalidAnswer", `the agent sent an invalid answer: ${path === "" ? "it" : path} must be ${rule}`);
}

/** A string of at most `maxLength` UTF-16 units that matches `pattern`. */
export function text(maxLength: number, pattern?: RegExp): Check<string> {
  return (value, path) => {
    if (typeof value !== "string" || value.length > maxLength)
      return invalid(path, `a string of at most ${maxLength} characters`);
    return pattern === undefined || pattern.test(value) ? value : invalid(path, `a string that matches ${pattern}`);
  };
}

/** A text for people: cut off at `maxLength`, with `?` for control characters other than tab and line feed. */
export function message(maxLength: number): Check<string> {
  return (value, path) => {
    if (typeof value !== "string") return invalid(path, "a string");
    return value.slice(0, maxLength).replace(/[\p{Cc}\p{Cf}]/gu, (found) => (found === "\n" || found === "\t" ? found : "?"));
  };
}

/** An integer within both bounds. */
export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Check<number> {
  return (value, path) =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : invalid(path, `an integer from ${min} to ${max}`);
}

/** An integer; the nearer bound for a number beyond both. */
export function clamped(min: number, max: number): Check<number> {
  return (value, path) =>
    typeof value === "number" && !Number.isNaN(value)
      ? Math.floor(Math.min(Math.max(value, min), max))
      : invalid(path, "a number");
}

/** A number of milliseconds that has passed, with fractions. */
export const elapsed: Check<number> = (value, path) =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : invalid(path, "a non-negative number");

/** True or false. */
export const flag: Check<boolean> = (value, path) => (typeof value === "boolean" ? value : invalid(path, "true or false"));

/** One of a few strings. */
export function oneOf<const T extends string>(values: readonly T[]): Check<T> {
  return (value, path) => values.find((each) => each === value) ?? invalid(path, `one of ${values.join(", ")}`);
}

/** Null, or what `check` accepts. */
export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value, path) => (value === null ? null : check(value, path));
}

/** A list of at most `maxItems`. */
export function list<T>(item: Check<T>, maxItems: number): Check<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value) || value.length > maxItems) return invalid(path, `a list of at most ${maxItems} items`);
    return value.map((each, index) => item(each, `${path}[${index}]`));
  };
}

/** A map of at most `maxEntries`. */
export function map<T>(key: Check<string>, item: Check<T>, maxEntries: number): Check<Readonly<Record<string, T>>> {
  return (value, path) => {
    const entries = isJsonObject(value) ? Object.entries(value) : undefined;
    if (entries === undefined || entries.length > maxEntries) return invalid(path, `a map of at most ${maxEntries} entries`);
    return Object.fromEntries(entries.map(([name, each]) => [key(name, path), item(each, `${path}[${name}]`)]));
  };
}

/** An object with these fields. Others are left out: an agent of a later version may have them. */
export function object<R extends Shape, O extends Shape>(required: R, optional: O): Check<Read<R> & Partial<Read<O>>> {
  return (value, path) => {
    if (!isJsonObject(value)) return invalid(path, "an object");
    const read: Record<string, unknown> = {};
    const prefix = path === "" ? "" : `${path}.`;
    for (const [name, check] of Object.entries(required)) read[name] = check(value[name], prefix + name);
    for (const [name, check] of Object.entries(optional)) {
      if (value[name] !== undefined) read[name] = check(value[name], prefix + name);
    }
    // Each field was read by the check of its name.
    return read as Read<R> & Partial<Read<O>>;
  };
}
