import { fromBufferKey } from "ordered-binary";
import type { TableName } from "./scan-result.ts";

/** The keys below a branch: from `from` (inclusive) to `to` (exclusive). */
export interface KeyBounds {
  readonly from: Buffer | undefined;
  readonly to: Buffer | undefined;
}

const tableNames: ReadonlySet<string> = new Set(["objects", "log", "meta"]);

/** Whether a named database belongs to the store. */
export function isTableName(name: string): name is TableName {
  return tableNames.has(name);
}

/** The range of one key. */
export function onlyKey(key: Buffer): KeyBounds {
  return { from: key, to: Buffer.concat([key, Buffer.of(0)]) };
}

/** A key as text; undefined if it is absent or unreadable. */
export function textOf(key: Buffer | undefined): string | undefined {
  const decoded = key === undefined ? undefined : decodeKey(key);
  return decoded === undefined ? undefined : String(decoded).replace(/\0$/, "");
}

/** A key as lmdb-js encodes it; undefined if it is neither a string nor a number. */
export function decodeKey(key: Buffer): string | number | undefined {
  try {
    const decoded: unknown = fromBufferKey(Buffer.from(key));
    return typeof decoded === "string" || typeof decoded === "number" ? decoded : undefined;
  } catch {
    return undefined;
  }
}
