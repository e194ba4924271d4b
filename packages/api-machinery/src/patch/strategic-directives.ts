import { isJsonObject, setOwn } from "../objects/json.ts";
import { statusError } from "../protocol/status.ts";

const maxDepth = 256;

/** Reports whether a key of a strategic merge patch is a directive. */
function isDirective(key: string): boolean {
  return (
    key === "$patch" ||
    key === "$retainKeys" ||
    key.startsWith("$setElementOrder/") ||
    key.startsWith("$deleteFromPrimitiveList/")
  );
}

/** Reports whether an item of a patched list carries `$patch`. */
export function containsDirective(item: unknown): boolean {
  return isJsonObject(item) && Object.hasOwn(item, "$patch");
}

/**
 * Returns the value that a part of a patch stands for if there is nothing to merge it with: without directives, nulls in
 * objects, and deletions.
 */
export function dropDirectives<T>(patch: T): T {
  return drop(patch, 0) as T;
}

function drop(patch: unknown, depth: number): unknown {
  if (depth > maxDepth) throw statusError("BadRequest", `the patch nests deeper than ${maxDepth} levels`);
  if (Array.isArray(patch)) {
    const kept = patch.filter((item) => !containsDirective(item)).map((item) => drop(item, depth + 1));
    return kept.length === patch.length && kept.every((item, index) => item === patch[index]) ? patch : kept;
  }
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, unknown> = {};
  let isChanged = false;
  for (const key of Object.keys(patch)) {
    const value: unknown = patch[key];
    const isGone = value === null || isDirective(key) || (isJsonObject(value) && value.$patch === "delete");
    const after = isGone ? undefined : drop(value, depth + 1);
    if (!isGone) setOwn(result, key, after);
    isChanged ||= isGone || after !== value;
  }
  return isChanged ? result : patch;
}
