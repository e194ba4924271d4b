import { isJsonObject } from "@keelson/api-machinery";
import { AgentError } from "./agent-error.ts";

/* Checks of values that an agent sent. They know nothing of the protocol. */

/** Returns the value as `T`. Throws {@link InvalidValue} if it is not one. */
export type Check<T> = (value: unknown) => T;

type Shape = Readonly<Record<string, Check<unknown>>>;
type Read<S extends Shape> = { readonly [Name in keyof S]: ReturnType<S[Name]> };

/** A value that a check does not accept. Checks of lists, maps and objects complete the path as the error passes, so that valid values need none. */
class InvalidValue extends Error {
  override readonly name = "InvalidValue";
  /** Fields and indexes that lead to the value, such as `a[0].b`; empty for the whole. */
  readonly path: string;
  readonly rule: string;

  constructor(path: string, rule: string) {
    super(rule);
    this.path = path;
    this.rule = rule;
  }
}

function invalid(rule: string): never {
  throw new InvalidValue("", rule);
}

/** Rethrows the error of a check of the value at `segment`. */
function invalidAt(segment: string, error: unknown): never {
  if (!(error instanceof InvalidValue)) throw error;
  const separator = error.path === "" || error.path.startsWith("[") ? "" : ".";
  throw new InvalidValue(`${segment}${separator}${error.path}`, error.rule);
}

/** Reads an answer with checks. Throws `InvalidAnswer`, which names the path, if they do not accept it. */
export function readAnswer<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    return asInvalidAnswer(error);
  }
}

/** Throws the error of a check as `InvalidAnswer`. */
export function asInvalidAnswer(error: unknown): never {
  if (!(error instanceof InvalidValue)) throw error;
  const { path, rule } = error;
  throw new AgentError("InvalidAnswer", `the agent sent an invalid answer: ${path === "" ? "it" : path} must be ${rule}`);
}

/** A string of at most `maxLength` UTF-16 units that matches `pattern`. */
export function text(maxLength: number, pattern?: RegExp): Check<string> {
  return (value) => {
    if (typeof value !== "string" || value.length > maxLength) return invalid(`a string of at most ${maxLength} characters`);
    return pattern === undefined || pattern.test(value) ? value : invalid(`a string that matches ${pattern}`);
  };
}

/** A text for people: cut off at `maxLength`, with `?` for control characters other than tab and line feed. */
export function message(maxLength: number): Check<string> {
  return (value) => {
    if (typeof value !== "string") return invalid("a string");
    return value.slice(0, maxLength).replace(/[\p{Cc}\p{Cf}]/gu, (found) => (found === "\n" || found === "\t" ? found : "?"));
  };
}

/** An integer within both bounds. */
export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Check<number> {
  return (value) =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max
      ? value
      : invalid(`an integer from ${min} to ${max}`);
}

/** An integer; the nearer bound for a number beyond both. */
export function clamped(min: number, max: number): Check<number> {
  return (value) =>
    typeof value === "number" && !Number.isNaN(value) ? Math.floor(Math.min(Math.max(value, min), max)) : invalid("a number");
}

/** A number of milliseconds that has passed, with fractions. */
export const elapsed: Check<number> = (value) =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : invalid("a non-negative number");

/** True or false. */
export const flag: Check<boolean> = (value) => (typeof value === "boolean" ? value : invalid("true or false"));

/** One of a few strings. */
export function oneOf<const T extends string>(values: readonly T[]): Check<T> {
  return (value) => values.find((each) => each === value) ?? invalid(`one of ${values.join(", ")}`);
}

/** Null, or what `check` accepts. */
export function nullable<T>(check: Check<T>): Check<T | null> {
  return (value) => (value === null ? null : check(value));
}

/** A list of at most `maxItems`. */
export function list<T>(item: Check<T>, maxItems: number): Check<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value) || value.length > maxItems) return invalid(`a list of at most ${maxItems} items`);
    return value.map((each, index) => {
      try {
        return item(each);
      } catch (error) {
        return invalidAt(`[${index}]`, error);
      }
    });
  };
}

/** Checks the value of a field. */
function checkAt<T>(check: Check<T>, value: unknown, segment: string): T {
  try {
    return check(value);
  } catch (error) {
    return invalidAt(segment, error);
  }
}

/** Checks the items of the list `name`, with a call of `pause` before each one, whose promise is awaited. Rejects as a check throws. */
export async function itemsInSteps<T>(
  name: string,
  item: Check<T>,
  values: readonly unknown[],
  pause: () => Promise<void> | undefined,
): Promise<readonly T[]> {
  const read: T[] = [];
  for (const value of values) {
    const paused = pause();
    if (paused !== undefined) await paused;
    try {
      read.push(item(value));
    } catch (error) {
      return invalidAt(`${name}[${read.length}]`, error);
    }
  }
  return read;
}

/** A map of at most `maxEntries`. */
export function map<T>(key: Check<string>, item: Check<T>, maxEntries: number): Check<Readonly<Record<string, T>>> {
  return (value) => {
    const entries = isJsonObject(value) ? Object.entries(value) : undefined;
    if (entries === undefined || entries.length > maxEntries) return invalid(`a map of at most ${maxEntries} entries`);
    return Object.fromEntries(
      entries.map(([name, each]) => {
        try {
          return [key(name), item(each)];
        } catch (error) {
          return invalidAt(`[${key(name)}]`, error);
        }
      }),
    );
  };
}

/** An object with these fields. Others are left out: an agent of a later version may have them. */
export function object<R extends Shape, O extends Shape>(required: R, optional: O): Check<Read<R> & Partial<Read<O>>> {
  const [allRequired, allOptional] = [Object.entries(required), Object.entries(optional)];
  return (value) => {
    if (!isJsonObject(value)) return invalid("an object");
    const read: Record<string, unknown> = {};
    for (const [name, check] of allRequired) read[name] = checkAt(check, value[name], name);
    for (const [name, check] of allOptional) {
      if (value[name] !== undefined) read[name] = checkAt(check, value[name], name);
    }
    // Each field was read by the check of its name.
    return read as Read<R> & Partial<Read<O>>;
  };
}
