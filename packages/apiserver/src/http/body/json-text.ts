import { isJsonObject, setOwn } from "@keelson/api-machinery";
import type { Steps } from "@keelson/api-machinery/server";
import { maxValues } from "../../endpoints/object/object-limits.ts";
import { UnreadableBodyError } from "../../endpoints/object/unreadable-body.ts";
import { maxDepth, tooDeep, tooManyValues } from "./body-limits.ts";
import { jsonFault } from "./json-fault.ts";

/** A parsed body and what only its text shows. */
export interface ParsedText {
  readonly value: unknown;
  /** Paths of keys that occur twice in one object (`metadata.labels.app`), at most 100. */
  readonly duplicateFields: readonly string[];
  /** The position of each field in the text, of duplicates the second one. Absent without duplicates. */
  readonly fieldPositions?: ReadonlyMap<string, number>;
  /** The same for YAML, as go-yaml reports it. */
  readonly duplicateKeys?: readonly string[];
}

/** Texts up to this length are read once more to say why they are not JSON, which takes a few milliseconds. */
const maxExplainedLength = 64 * 1024;

/** Maximum number of duplicate fields that are reported. Same as kube-apiserver. */
const maxDuplicates = 100;

/**
 * Parses JSON in steps. `__proto__` becomes an ordinary own property. Of duplicate keys the last one wins, unless `mergesDuplicates`.
 *
 * **Errors**: `BadRequest` if the text is not JSON or nests too deep, `RequestEntityTooLarge` if it has too many values. Both limits are
 * checked before anything is allocated.
 */
export function* parseJsonInSteps(text: string, mergesDuplicates = false): Steps<ParsedText> {
  const parsed = yield* tryParseJsonInSteps(text, mergesDuplicates);
  if (!(parsed instanceof SyntaxError)) return parsed;
  throw new UnreadableBodyError((text.length <= maxExplainedLength && jsonFault(text)) || parsed.message, text);
}

/** Like {@link parseJsonInSteps}, but returns a syntax error. */
export function* tryParseJsonInSteps(text: string, mergesDuplicates = false): Steps<ParsedText | SyntaxError> {
  const keysInText = scan(text);
  yield;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return error;
    throw error;
  }
  yield;
  // Counting is cheap and usually sufficient. Only a body with duplicates is scanned again.
  if (countKeys(value) === keysInText) return { value, duplicateFields: [] };
  yield;
  return { value: mergesDuplicates ? parseMerging(text) : value, ...findDuplicates(text) };
}

/**
 * Parses valid JSON like Go decodes it into a struct: if a key occurs twice and both values are objects, they are merged. Only for bodies
 * with duplicates.
 */
function parseMerging(text: string): unknown {
  let at = 0;
  const skip = (): string => {
    while (" \t\r\n,:".includes(text[at] ?? "x")) at++;
    return text[at] ?? "";
  };
  const readValue = (target?: unknown): unknown => {
    const first = skip();
    if (first === "{") return readObject(isJsonObject(target) ? target : {});
    if (first === "[") {
      at++;
      const list: unknown[] = [];
      while (skip() !== "]") list.push(readValue());
      at++;
      return list;
    }
    const start = at;
    if (first === '"') at = endOfString(text, at) + 1;
    else while (!" \t\r\n,]}".includes(text[at] ?? " ")) at++;
    return JSON.parse(text.slice(start, at));
  };
  const readObject = (target: Record<string, unknown>): Record<string, unknown> => {
    at++;
    while (skip() !== "}") {
      const key = String(readValue());
      setOwn(target, key, readValue(Object.hasOwn(target, key) ? target[key] : undefined));
    }
    at++;
    return target;
  };
  return readValue();
}

const quoteCode = 0x22;
const backslashCode = 0x5c;

/** Returns the number of keys in the text, which is the number of colons outside strings. Enforces the limits. */
function scan(text: string): number {
  let colons = 0;
  let depth = 0;
  let values = 0;
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
        if (++values > maxValues) throw tooManyValues();
        break;
      case 0x2c:
        if (++values > maxValues) throw tooManyValues();
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

/** Index of the closing quote of the string starting at `start`, or the text's length if it is not closed. */
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

/** Collects the paths of duplicate keys in valid JSON, and where each key occurs. */
function findDuplicates(text: string): Required<Pick<ParsedText, "duplicateFields" | "fieldPositions">> {
  const duplicates = new Set<string>();
  const positions = new Map<string, number>();
  const levels: Level[] = [];
  const here = (): string => {
    const level = levels.at(-1);
    if (level === undefined) return "";
    if (level.keys === undefined) return `${level.path}[${level.index}]`;
    return level.path === "" ? level.key : `${level.path}.${level.key}`;
  };
  let isKey = false;
  for (let at = 0; at < text.length && duplicates.size < maxDuplicates; at++) {
    const level = levels.at(-1);
    switch (text.charCodeAt(at)) {
      case quoteCode: {
        const end = endOfString(text, at);
        if (isKey && level?.keys !== undefined) {
          level.key = String(JSON.parse(text.slice(at, end + 1)));
          const path = here();
          const isRepeated = level.keys.has(level.key);
          if (!positions.has(path) || (isRepeated && !duplicates.has(path))) positions.set(path, at);
          if (isRepeated) duplicates.add(path);
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
  return { duplicateFields: [...duplicates], fieldPositions: positions };
}
