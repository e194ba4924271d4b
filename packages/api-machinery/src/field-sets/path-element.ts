import { isJsonObject } from "../objects/json.ts";

/**
 * One step of a field path in its FieldsV1 form, which is canonical, so that two steps are equal when their texts are:
 *
 * | form              | selects                                                     |
 * |-------------------|-------------------------------------------------------------|
 * | `f:replicas`      | a field of an object                                        |
 * | `k:{"name":"a"}`  | the item of a keyed list that has these keys (names sorted) |
 * | `v:"x"`           | an item of a set                                            |
 * | `i:3`             | an item of a list by its index                              |
 */
export type PathElement = string;

/** Returns the element of an object's field. */
export function fieldElement(name: string): PathElement {
  return fieldElements.get(name) ?? fieldElements.add(name, `f:${name}`);
}

/** Returns the element of an item of a set. */
export function valueElement(value: unknown): PathElement {
  if (typeof value !== "string") return `v:${canonicalJson(value)}`;
  return valueElements.get(value) ?? valueElements.add(value, `v:${canonicalJson(value)}`);
}

/** Returns the element of an item of a keyed list. `names` are sorted and parallel to `values`. */
export function keyElement(names: readonly string[], values: readonly unknown[]): PathElement {
  let text = "k:{";
  for (let index = 0; index < names.length; index++) {
    if (index > 0) text += ",";
    text += `${canonicalJson(names[index])}:${canonicalJson(values[index])}`;
  }
  return `${text}}`;
}

/** Like {@link keyElement}, for lists with one key, as most lists have. */
export function singleKeyElement(name: string, value: unknown): PathElement {
  if (typeof value !== "string") return keyElement([name], [value]);
  let elements = keyElements.get(name);
  if (elements === undefined) {
    if (keyElements.size >= 256) keyElements.clear();
    elements = new ElementCache(256);
    keyElements.set(name, elements);
  }
  return elements.get(value) ?? elements.add(value, keyElement([name], [value]));
}

/**
 * Interned elements. Field names and keys repeat endlessly, and a new string must be flattened and hashed before a map can
 * find it. Bounded: long texts are not interned, and a full cache starts over.
 */
class ElementCache {
  readonly #elements = new Map<string, PathElement>();
  readonly #limit: number;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(text: string): PathElement | undefined {
    return this.#elements.get(text);
  }

  add(text: string, element: PathElement): PathElement {
    if (text.length > 100) return element;
    if (this.#elements.size >= this.#limit) this.#elements.clear();
    this.#elements.set(text, element);
    return element;
  }
}

const fieldElements = new ElementCache(4096);
const valueElements = new ElementCache(1024);
const keyElements = new Map<string, ElementCache>();

/**
 * Parses a key of FieldsV1 to its canonical form; `undefined` for an unknown kind of element, which readers skip because
 * newer servers may write more kinds.
 *
 * **Errors**: a `SyntaxError` if the key is malformed.
 */
export function parsePathElement(text: string): PathElement | undefined {
  if (text.length < 2 || text[1] !== ":")
    throw new SyntaxError(`field path element ${JSON.stringify(text)} has no "x:" prefix`);
  const rest = text.slice(2);
  switch (text[0]) {
    case "f":
      return text;
    case "k": {
      if (plainKey.test(rest)) return text;
      const keys: unknown = JSON.parse(rest);
      if (!isJsonObject(keys))
        throw new SyntaxError(`field path element ${JSON.stringify(text)} must be "k:" followed by an object`);
      const names = Object.keys(keys).sort(compareText);
      return keyElement(
        names,
        names.map((name) => keys[name]),
      );
    }
    case "v":
      return valueElement(JSON.parse(rest));
    case "i":
      if (!/^-?\d+$/.test(rest))
        throw new SyntaxError(`field path element ${JSON.stringify(text)} must be "i:" followed by a number`);
      return `i:${Number(rest)}`;
    default:
      return undefined;
  }
}

/** A canonical key object: one key, with a string that needs no escapes. */
const plainKey = /^\{"[\w.-]+":"[\w ./:@-]*"\}$/;

/** Orders the elements of one level as FieldsV1 does: fields, keys, values, indexes; each kind by its own order. */
export function comparePathElements(left: PathElement, right: PathElement): number {
  return left === right ? 0 : compareParsed(parsedElement(left), parsedElement(right));
}

/** The elements of one level in the order of {@link comparePathElements}. */
export function sortPathElements(elements: Iterable<PathElement>): readonly PathElement[] {
  const list = [...elements];
  // Without surrogates, the order of fields is that of their texts, which is the fast one.
  if (list.every((element) => element.startsWith("f:") && !surrogate.test(element))) return list.sort();
  return list
    .map(parsedElement)
    .sort(compareParsed)
    .map(({ element }) => element);
}

const surrogate = /[\ud800-\udfff]/;

/** An element with what its order depends on. */
interface ParsedElement {
  readonly element: PathElement;
  readonly rank: number;
  /** The keys in order, or the one value; empty for a field or an index. */
  readonly keys: readonly (readonly [name: string, value: unknown])[];
}

function parsedElement(element: PathElement): ParsedElement {
  return { element, rank: rankOf(element), keys: keysOf(element) };
}

function keysOf(element: PathElement): ParsedElement["keys"] {
  if (element[0] !== "k" && element[0] !== "v") return [];
  const value: unknown = JSON.parse(element.slice(2));
  if (element[0] === "v") return [["", value]];
  return isJsonObject(value) ? Object.entries(value).sort(([left], [right]) => compareText(left, right)) : [];
}

function compareParsed(left: ParsedElement, right: ParsedElement): number {
  if (left.rank !== right.rank) return left.rank - right.rank;
  switch (left.element[0]) {
    case "k":
    case "v":
      return compareKeys(left.keys, right.keys);
    case "i":
      return Number(left.element.slice(2)) - Number(right.element.slice(2));
    default:
      return compareText(left.element, right.element);
  }
}

/** Formats an element for messages: `.spec`, `[name="a"]`, `[="x"]`, `[3]`. */
function describePathElement(element: PathElement): string {
  const rest = element.slice(2);
  switch (element[0]) {
    case "f":
      return `.${rest}`;
    case "k": {
      const keys: unknown = JSON.parse(rest);
      if (!isJsonObject(keys)) return `[${rest}]`;
      const names = Object.keys(keys).sort(compareText);
      return `[${names.map((name) => `${name}=${JSON.stringify(keys[name])}`).join(",")}]`;
    }
    case "v":
      return `[=${JSON.stringify(JSON.parse(rest))}]`;
    default:
      return `[${rest}]`;
  }
}

/** Formats a path for messages: `.spec.containers[name="a"].image`. */
export function describePath(path: readonly PathElement[]): string {
  return path.map(describePathElement).join("");
}

function rankOf(element: PathElement): number {
  return "fkvi".indexOf(element[0] ?? "");
}

/** Orders strings by code point, as Go does; `<` orders by UTF-16 unit, which differs beyond U+FFFF. */
export function compareText(left: string, right: string): number {
  if (left === right) return 0;
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    if (left.charCodeAt(index) === right.charCodeAt(index)) continue;
    const a = left.codePointAt(index) ?? 0;
    const b = right.codePointAt(index) ?? 0;
    return isHighHalf(a) === isHighHalf(b) || a > 0xffff || b > 0xffff ? a - b : left < right ? -1 : 1;
  }
  return left.length - right.length;
}

function isHighHalf(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

function compareKeys(left: ParsedElement["keys"], right: ParsedElement["keys"]): number {
  for (const [index, [leftName, leftValue]] of left.entries()) {
    const other = right[index];
    if (other === undefined) break;
    const order = compareText(leftName, other[0]) || compareValues(leftValue, other[1]);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

/**
 * Orders numbers, strings, booleans, lists, objects and null; numbers and strings by value, the rest (rare in keys) by JSON.
 */
function compareValues(left: unknown, right: unknown): number {
  const byType = typeRank(left) - typeRank(right);
  if (byType !== 0) return byType;
  if (typeof left === "number" && typeof right === "number") return left - right;
  if (typeof left === "string" && typeof right === "string") return compareText(left, right);
  return compareText(canonicalJson(left), canonicalJson(right));
}

function typeRank(value: unknown): number {
  if (typeof value === "number") return 0;
  if (typeof value === "string") return 1;
  if (typeof value === "boolean") return 2;
  if (Array.isArray(value)) return 3;
  return value === null ? 5 : 4;
}

/** Formats JSON as the Kubernetes API server does: keys sorted, `<`, `>`, `&` and line separators escaped. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (isJsonObject(value)) {
    const names = Object.keys(value).sort(compareText);
    return `{${names.map((name) => `${canonicalJson(name)}:${canonicalJson(value[name])}`).join(",")}}`;
  }
  const text = JSON.stringify(value) ?? "null";
  return typeof value === "string" && /[<>&\u2028\u2029]/.test(text)
    ? text.replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
    : text;
}
