/** A JSON value. Kubernetes numbers are JSON numbers: integers beyond 2^53 lose precision, as in any JavaScript client. */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;

/** A JSON object. Keys may be any string, `__proto__` included: read them with `Object.hasOwn` where input decides the key. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** `T` with every property and element read-only, all the way down: the type of what comes out of a cache. */
export type DeepReadonly<T> = T extends (infer E)[]
  ? readonly DeepReadonly<E>[]
  : T extends readonly (infer E)[]
    ? readonly DeepReadonly<E>[]
    : T extends object
      ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
      : T;

/**
 * `T` with every property optional, all the way down: the type of an apply configuration. `undefined` is as good as absent, also
 * for those who compile with `exactOptionalPropertyTypes`.
 */
export type DeepPartial<T> = T extends (infer E)[]
  ? DeepPartial<E>[]
  : T extends object
    ? { [K in keyof T]?: DeepPartial<T[K]> | undefined }
    : T;

/**
 * Freezes a JSON value in place, all the way down, and returns it. A value whose top is frozen already is taken as frozen
 * throughout, so that freezing a shared object twice costs nothing.
 */
export function deepFreeze<T>(value: T): DeepReadonly<T> {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value as DeepReadonly<T>;
}

/** A mutable deep copy of a JSON value: the way from a frozen object out of a cache to one's own draft of it. */
export function draft<T>(value: T): Mutable<T> {
  return copy(value) as Mutable<T>;
}

/** The inverse of {@link DeepReadonly}. */
export type Mutable<T> = T extends readonly (infer E)[]
  ? Mutable<E>[]
  : T extends object
    ? { -readonly [K in keyof T]: Mutable<T[K]> }
    : T;

function copy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copy);
  if (typeof value !== "object" || value === null) return value;
  const result: Record<string, unknown> = {};
  for (const key of Object.keys(value)) setOwn(result, key, copy((value as Record<string, unknown>)[key]));
  return result;
}

/** Sets a property as `JSON.parse` would: `__proto__` becomes an ordinary own property and never touches the prototype. */
export function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

/** Whether `value` is a JSON object: not null and not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether two JSON values are equal: objects whatever the order of their keys, `undefined` properties as absent ones. */
export function jsonEquals(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((element, index) => jsonEquals(element, b[index]));
  }
  const left = a as Record<string, unknown>;
  const right = b as Record<string, unknown>;
  let count = 0;
  for (const key of Object.keys(left)) {
    if (left[key] === undefined) continue;
    count++;
    if (!Object.hasOwn(right, key) || !jsonEquals(left[key], right[key])) return false;
  }
  for (const key of Object.keys(right)) if (right[key] !== undefined) count--;
  return count === 0;
}
