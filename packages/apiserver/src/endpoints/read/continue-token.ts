import { posix } from "node:path";
import { isJsonObject } from "@keelson/api-machinery";
import { jsonFault } from "../../http/body/json-fault.ts";
import { badRequest } from "../errors.ts";

/** Where the next page of a list starts. */
export interface Position {
  /** The revision that all pages show. -1 after that revision was compacted: the next page then shows the newest state. */
  readonly revision: number;
  /** The last key of the previous page. */
  readonly startAfter: string;
  /** The number of objects after that key, if it is known: each page then need not count them. */
  readonly remaining?: number;
}

/** Encodes a position as an opaque token. Keys are relative to `prefix`, so a token cannot reach another resource. */
export function encodeContinue(position: Position, prefix: string): string {
  const start = position.startAfter.slice(prefix.length);
  const { revision, remaining } = position;
  return Buffer.from(JSON.stringify({ v: tokenVersion, rv: revision, start, remaining })).toString("base64url");
}

const tokenVersion = "meta.k8s.io/v1";

/** Far above the length of names. Bounds the nesting of a forged token. */
const maxTokenLength = 4_096;

/** Decodes a token. Throws `BadRequest` for anything that {@link encodeContinue} did not create. */
export function decodeContinue(token: string, prefix: string): Position {
  const fail = (why: string): Error => badRequest(`invalid continue token: continue key is not valid: ${why}`);
  const invalid = /[^\w-]/.exec(token)?.index ?? (token.length % 4 === 1 ? token.length - 1 : -1);
  if (invalid >= 0) throw fail(`illegal base64 data at input byte ${invalid}`);
  const text = Buffer.from(token, "base64url").toString();
  const fault = text.length > maxTokenLength ? "too long" : jsonFault(text);
  if (fault !== undefined) throw fail(fault);
  const value: unknown = JSON.parse(text);
  if (value !== null && !isJsonObject(value)) {
    const type = Array.isArray(value) ? "array" : typeof value === "boolean" ? "bool" : typeof value;
    throw fail(`json: cannot unmarshal ${type} into Go value of type storage.continueToken`);
  }
  if (!isJsonObject(value) || value["v"] !== tokenVersion) {
    const version = isJsonObject(value) && typeof value["v"] === "string" ? value["v"] : "";
    throw fail(`server does not recognize this encoded version ${version}`);
  }
  const { rv, start = "", remaining } = value;
  if (typeof rv !== "number" || !Number.isSafeInteger(rv) || rv === 0) {
    throw fail(`incorrect encoded start resourceVersion (version ${tokenVersion})`);
  }
  if (typeof start !== "string" || start === "") throw fail(`encoded start key empty (version ${tokenVersion})`);
  const key = start.startsWith("/") ? start : `/${start}`;
  if (posix.normalize(key) !== key || key.endsWith("/")) throw fail(start);
  const isCounted = typeof remaining === "number" && Number.isSafeInteger(remaining) && remaining >= 0;
  return { revision: Math.max(rv, -1), startAfter: prefix + start, ...(isCounted ? { remaining } : {}) };
}
