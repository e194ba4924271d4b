import { isJsonObject, jsonEquals } from "../objects/json.ts";

/** An operation of a computed JSON Patch (RFC 6902). */
export type ComputedOperation =
  | { readonly op: "add" | "replace"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/**
 * Computes a JSON Patch that turns `before` into `after`; empty if they are equal. Fields are patched one by one. Lists of the same length are
 * patched by item; others are replaced.
 */
export function createJsonPatch(before: unknown, after: unknown): readonly ComputedOperation[] {
  const operations: ComputedOperation[] = [];
  compare(before, after, "", operations);
  return operations;
}

function compare(before: unknown, after: unknown, path: string, operations: ComputedOperation[]): void {
  if (jsonEquals(before, after)) return;
  if (isJsonObject(before) && isJsonObject(after)) {
    for (const key of Object.keys(before)) {
      if (!isSet(after, key)) operations.push({ op: "remove", path: `${path}/${escapeToken(key)}` });
    }
    for (const [key, value] of Object.entries(after)) {
      if (value === undefined) continue;
      const at = `${path}/${escapeToken(key)}`;
      if (isSet(before, key)) compare(before[key], value, at, operations);
      else operations.push({ op: "add", path: at, value });
    }
  } else if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
    for (const [index, value] of after.entries()) compare(before[index], value, `${path}/${index}`, operations);
  } else operations.push({ op: "replace", path, value: after });
}

/** In JSON, a field that is undefined is absent. */
function isSet(object: Readonly<Record<string, unknown>>, key: string): boolean {
  return Object.hasOwn(object, key) && object[key] !== undefined;
}

function escapeToken(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
