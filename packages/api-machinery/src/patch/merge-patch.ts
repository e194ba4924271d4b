import { isJsonObject, jsonEquals, setOwn } from "../objects/json.ts";
import { statusError } from "../protocol/status.ts";
import { runSteps, type Steps } from "../values/steps.ts";

const maxDepth = 1_000;

/**
 * Applies a JSON Merge Patch (RFC 7386) and returns the new value: objects merge, `null` removes, everything else replaces.
 * The arguments are not changed, unchanged parts are shared with `target`, and a patch without effect returns `target`
 * itself.
 *
 * **Errors**: a `StatusError` BadRequest if the patch is not an object or nests deeper than 1,000 levels.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  return runSteps(mergePatchInSteps(target, patch));
}

/** {@link mergePatch} in steps, for large patches. */
export function* mergePatchInSteps(target: unknown, patch: unknown): Steps<unknown> {
  if (!isJsonObject(patch)) throw statusError("BadRequest", "a merge patch must be a JSON object");
  return yield* merge(target, patch, 0);
}

/** Keys of an object that are merged in a step. */
const keysPerStep = 4_000;

function* merge(target: unknown, patch: Record<string, unknown>, depth: number): Steps<unknown> {
  if (depth > maxDepth) throw statusError("BadRequest", `the patch nests deeper than ${maxDepth} levels`);
  const base: Record<string, unknown> = isJsonObject(target) ? target : {};
  let result = isJsonObject(target) ? undefined : base;
  for (const [index, key] of Object.keys(patch).entries()) {
    if (index % keysPerStep === keysPerStep - 1) yield;
    const change = patch[key];
    const exists = Object.hasOwn(base, key);
    if (change === null || change === undefined) {
      if (!exists) continue;
      result ??= { ...base };
      delete result[key];
      continue;
    }
    const before = exists ? base[key] : undefined;
    const after = isJsonObject(change) ? yield* merge(before, change, depth + 1) : change;
    if (exists && (after === before || (!isJsonObject(change) && jsonEquals(after, before)))) continue;
    result ??= { ...base };
    setOwn(result, key, after);
  }
  return result ?? base;
}

/**
 * Computes the merge patch that turns `before` into `after`; `undefined` if they are equal. A merge patch cannot set a field
 * to null, so nulls that only `after` has are omitted.
 */
export function mergePatchOf(before: object, after: object): Record<string, unknown> | undefined {
  return difference(before as Record<string, unknown>, after as Record<string, unknown>, 0);
}

function difference(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  depth: number,
): Record<string, unknown> | undefined {
  if (depth > maxDepth) throw new RangeError(`object nests deeper than ${maxDepth} levels`);
  const patch: Record<string, unknown> = {};
  for (const key of Object.keys(before)) {
    if (before[key] !== undefined && (!Object.hasOwn(after, key) || after[key] === undefined)) setOwn(patch, key, null);
  }
  for (const key of Object.keys(after)) {
    const value = after[key];
    const old = Object.hasOwn(before, key) ? before[key] : undefined;
    if (value === undefined || (value === null && old === undefined)) continue;
    if (isJsonObject(value) && isJsonObject(old)) {
      const inner = difference(old, value, depth + 1);
      if (inner) setOwn(patch, key, inner);
    } else if (!jsonEquals(value, old)) setOwn(patch, key, value);
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}
