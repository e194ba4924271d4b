import { isJsonObject, statusError } from "@keelson/api-machinery";

/** How deep objects and arrays of a request may nest. No kind needs a tenth of it, and recursive code can bear it. */
export const maxDepth = 512;

/** A parsed body, and what only its text shows. */
export interface ParsedText {
  readonly value: unknown;
  /** Paths of keys that occur twice in one object (`metadata.labels.app`); the last one counts, as in `JSON.parse`. */
  readonly duplicateFields: readonly string[];
}

/**
 * Parses JSON. `__proto__` becomes an ordinary own property.
 *
 * @throws StatusError `BadRequest` when it is no JSON or nests deeper than {@link maxDepth}.
 */
export function parseJson(text: string): ParsedText {
  const keysInText = scan(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw statusError("BadRequest", `the body of the request is not valid JSON: ${(error as Error).message}`);
  }
  // Counting is cheap and nearly always the end of it; only a body that has duplicates is gone through again.
  return { value, duplicateFields: countKeys(value) === keysInText ? [] : findDuplicates(text) };
}

/**
 * Refuses a value that JSON can't carry or that nests too deep: what a YAML body may bring.
 *
 * @throws StatusError `BadRequest`.
 */
export function requireJsonValue(value: unknown, depth = 0): void {
  if (depth > maxDepth) throw tooDeep();
  if (typeof value === "number" && !Number.isFinite(value)) {
    throw statusError("BadRequest", `the body of the request has the number ${value}, which JSON does not know`);
  }
  if (typeof value === "object" && value !== null) {
    for (const child of Object.values(value)) requireJsonValue(child, depth + 1);
  }
}

function tooDeep(): Error {
  return statusError("BadRequest", `the body of the request nests deeper than ${maxDepth} levels`);
}

const quoteCode = 0x22;
const backslashCode = 0x5c;

/** Number of keys in the text, which is the number of colons outside of strings. Refuses deep nesting on its way. */
function scan(text: string): number {
  let colons = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quoteCode:
        at = endOfString(text, at);
        break;
      case 0x3a:
        colons++;
        break;
      case 0x7b:
      case 0x5b:
        if (++depth > maxDepth) throw tooDeep();
        break;
      case 0x7d:
      case 0x5d:
        depth--;
        break;
      default:
    }
  }
  return colons;
}

/** Index of the quote that ends the string beginning at `start`, or the text's length when none does. */
function endOfString(text: string, start: number): number {
  let at = start;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at < 0) return text.length;
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === backslashCode) backslashes++;
    if (backslashes % 2 === 0) return at;
  }
}

function countKeys(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, element) => sum + countKeys(element), 0);
  let count = 0;
  if (isJsonObject(value)) for (const key of Object.keys(value)) count += 1 + countKeys(value[key]);
  return count;
}

interface Level {
  readonly keys: Set<string> | undefined;
  readonly path: string;
  key: string;
  index: number;
}

/** Goes through valid JSON and gathers the paths of keys that an object has twice. */
function findDuplicates(text: string): string[] {
  const duplicates = new Set<string>();
  const levels: Level[] = [];
  const here = (): string => {
    const level = levels.at(-1);
    if (level === undefined) return "";
    if (level.keys === undefined) return `${level.path}[${level.index}]`;
    return level.path === "" ? level.key : `${level.path}.${level.key}`;
  };
  let isKey = false;
  for (let at = 0; at < text.length; at++) {
    const level = levels.at(-1);
    switch (text.charCodeAt(at)) {
      case quoteCode: {
        const end = endOfString(text, at);
        if (isKey && level?.keys !== undefined) {
          level.key = String(JSON.parse(text.slice(at, end + 1)));
          if (level.keys.has(level.key)) duplicates.add(here());
          level.keys.add(level.key);
        }
        at = end;
        break;
      }
      case 0x3a:
        isKey = false;
        break;
      case 0x2c:
        isKey = level?.keys !== undefined;
        if (level?.keys === undefined && level !== undefined) level.index++;
        break;
      case 0x7b:
        levels.push({ keys: new Set(), path: here(), key: "", index: 0 });
        isKey = true;
        break;
      case 0x5b:
        levels.push({ keys: undefined, path: here(), key: "", index: 0 });
        isKey = false;
        break;
      case 0x7d:
      case 0x5d:
        levels.pop();
        isKey = false;
        break;
      default:
    }
  }
  return [...duplicates];
}
