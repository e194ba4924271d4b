import { isJsonObject, jsonEquals, setOwn } from "../objects/json.ts";
import type { Schema } from "../schema/schema.ts";
import { statusError, type StatusError, unclassifiedError } from "../protocol/status.ts";
import { goText, goType } from "./go-text.ts";
import { containsDirective, dropDirectives } from "./strategic-directives.ts";
import { arrange } from "./strategic-order.ts";
import { runSteps, type Steps } from "../values/steps.ts";

type JsonMap = Record<string, unknown>;

const maxDepth = 256;
const orderPrefix = "$setElementOrder/";
const deletePrefix = "$deleteFromPrimitiveList/";

/**
 * Applies a strategic merge patch and returns the new value. Objects merge and `null` removes, as in a merge patch. Lists
 * merge if their schema has the patch strategy `merge`: lists of objects by merge key, lists of scalars as sets. Directives:
 * `$patch` (`replace`, `delete`), `$retainKeys`, `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`.
 *
 * The arguments are not changed; unchanged parts are shared with `target`.
 *
 * **Errors**: a `StatusError` with kube-apiserver's message: BadRequest for a malformed directive, Invalid for lists of
 * lists, and code 500 without a reason for cases that have no class, such as an unknown `$patch` or an item without its merge
 * key.
 */
export function strategicMergePatch(schema: Schema, target: unknown, patch: unknown): unknown {
  return runSteps(strategicMergePatchInSteps(schema, target, patch));
}

/** {@link strategicMergePatch} in steps, for large patches. */
export function* strategicMergePatchInSteps(schema: Schema, target: unknown, patch: unknown): Steps<unknown> {
  if (!isJsonObject(patch)) throw bad("a strategic merge patch has to be a JSON object");
  return yield* mergeMap(schema, isJsonObject(target) ? target : {}, patch, 0);
}

/** Keys of an object, and items of a list, that are merged in a step. */
const mergesPerStep = 2_000;

function bad(message: string): StatusError {
  return statusError("BadRequest", message);
}

function missingKey(item: unknown, mergeKey: string): StatusError {
  return unclassifiedError(`map: ${goText(item)} does not contain declared merge key: ${mergeKey}`);
}

function unknownPatch(directive: unknown, map: unknown): StatusError {
  return unclassifiedError(`unknown patch type: ${directiveText(directive)} in map: ${goText(map)}`);
}

/** Go prints a value that is not a text with its type, because the message has room for a text. */
function directiveText(directive: unknown): string {
  if (typeof directive === "number") return `%!s(${Number.isInteger(directive) ? "int64" : "float64"}=${directive})`;
  return typeof directive === "boolean" ? `%!s(bool=${directive})` : goText(directive);
}

function notAList(value: unknown): StatusError {
  return unclassifiedError(`expected a []interface {}, but received a ${goType(value)}`);
}

function* mergeMap(schema: Schema | undefined, original: JsonMap, patch: JsonMap, depth: number): Steps<JsonMap> {
  if (depth > maxDepth) throw bad(`the patch nests deeper than ${maxDepth} levels`);
  const directive = Object.hasOwn(patch, "$patch") ? patch.$patch : undefined;
  if (directive === "replace") return dropDirectives(patch);
  if (directive === "delete") return {};
  if (directive !== undefined) throw unknownPatch(directive, patch);
  const result = retainKeys(original, patch);
  for (const [index, key] of Object.keys(patch).entries()) {
    if (index % mergesPerStep === mergesPerStep - 1) yield;
    if (key === "$patch" || key === "$retainKeys" || key.startsWith(deletePrefix)) continue;
    if (key.startsWith(orderPrefix)) {
      const name = key.slice(orderPrefix.length);
      // A list that is also in the patch is ordered when the patch reaches it.
      if (!Object.hasOwn(patch, name)) yield* mergeField(schema, result, name, undefined, patch, depth);
    } else yield* mergeField(schema, result, key, patch[key], patch, depth);
  }
  for (const key of Object.keys(patch)) if (key.startsWith(deletePrefix)) deleteScalars(result, key, patch[key]);
  return sameAs(original, result) ? original : result;
}

function sameAs(a: JsonMap, b: JsonMap): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}

/** Copies the original without the keys that `$retainKeys` drops. */
function retainKeys(original: JsonMap, patch: JsonMap): JsonMap {
  if (!Object.hasOwn(patch, "$retainKeys")) return { ...original };
  const kept = patch.$retainKeys;
  if (!Array.isArray(kept)) throw bad("invalid patch format of retainKeys");
  const names = new Set<unknown>(kept);
  for (const key of Object.keys(patch)) {
    const isDirective = key.startsWith("$");
    if (!isDirective && patch[key] !== null && !names.has(key)) throw bad("invalid patch format of retainKeys");
  }
  const result: JsonMap = {};
  for (const key of Object.keys(original)) if (names.has(key)) setOwn(result, key, original[key]);
  return result;
}

function* mergeField(
  schema: Schema | undefined,
  result: JsonMap,
  key: string,
  change: unknown,
  patch: JsonMap,
  depth: number,
): Steps<void> {
  if (change === null) {
    delete result[key];
    return;
  }
  const before = Object.hasOwn(result, key) ? result[key] : undefined;
  const field = fieldOf(schema, key);
  const strategies = field?.["x-kubernetes-patch-strategy"]?.split(",") ?? [];
  const orderKey = `${orderPrefix}${key}`;
  const order = Object.hasOwn(patch, orderKey) ? patch[orderKey] : undefined;
  if (order !== undefined) {
    for (const list of [order, before, change]) if (list !== undefined && !Array.isArray(list)) throw notAList(list);
    if (before === undefined && change === undefined) return;
    const lists = [before, change, order].map((list) => (list ?? []) as unknown[]) as [unknown[], unknown[], unknown[]];
    setOwn(result, key, yield* mergeList(field, ...lists, depth));
  } else if (Array.isArray(before) && Array.isArray(change) && strategies.includes("merge")) {
    setOwn(result, key, yield* mergeList(field, before, change, undefined, depth));
  } else if (isJsonObject(before) && isJsonObject(change) && !strategies.includes("replace")) {
    setOwn(result, key, yield* mergeMap(field, before, change, depth + 1));
  } else if (isJsonObject(change) && change.$patch === "delete") {
    delete result[key];
  } else {
    const value = dropDirectives(change);
    if (!jsonEquals(before, value)) setOwn(result, key, value);
  }
}

function fieldOf(schema: Schema | undefined, key: string): Schema | undefined {
  const { properties, additionalProperties } = schema ?? {};
  if (properties && Object.hasOwn(properties, key)) return properties[key];
  return typeof additionalProperties === "object" ? additionalProperties : undefined;
}

function* mergeList(
  schema: Schema | undefined,
  original: readonly unknown[],
  patch: readonly unknown[],
  order: readonly unknown[] | undefined,
  depth: number,
): Steps<unknown[]> {
  const types = new Set([...original, ...patch].map(goType));
  if (types.has("[]interface {}")) {
    const message = "the server rejected our request due to an error in our request: lists of lists are not supported";
    throw statusError("Invalid", message, {});
  }
  if (types.size > 1) throw unclassifiedError(`list element types are not identical: ${goText([original, patch])}`);
  const isMaps = [...original, ...patch].some(isJsonObject);
  if (!isMaps) {
    if (order) checkOrder(patch, order, undefined);
    const merged = [...new Set([...original, ...patch])];
    return arrange(merged, order ?? patch, original, undefined);
  }
  const mergeKey = schema?.["x-kubernetes-patch-merge-key"];
  if (mergeKey === undefined) throw unclassifiedError("cannot merge lists without merge key for struct");
  if (order) checkOrder(patch, order, mergeKey);
  const changes: JsonMap[] = [];
  const deleted = new Set<unknown>();
  let isReplaced = false;
  for (const item of patch) {
    if (!isJsonObject(item)) continue;
    const directive = Object.hasOwn(item, "$patch") ? item.$patch : undefined;
    if (directive === undefined) changes.push(item);
    else if (directive === "replace") isReplaced = true;
    else if (directive === "delete") {
      if (!Object.hasOwn(item, mergeKey)) throw missingKey(item, mergeKey);
      deleted.add(item[mergeKey]);
    } else if (directive === "merge") throw unclassifiedError("merging lists cannot yet be specified in the patch");
    else throw unknownPatch(directive, item);
  }
  if (isReplaced) return changes.map((item) => dropDirectives(item));
  const base = deleted.size === 0 ? original.slice() : original.filter((item) => !deleted.has(keyOf(item, mergeKey)));
  const places = new Map<unknown, number>();
  base.forEach((item, index) => {
    const key = keyOf(item, mergeKey);
    if (!places.has(key)) places.set(key, index);
  });
  for (const [index, item] of changes.entries()) {
    if (index % mergesPerStep === mergesPerStep - 1) yield;
    if (!Object.hasOwn(item, mergeKey)) throw missingKey(item, mergeKey);
    const place = places.get(item[mergeKey]);
    if (place === undefined) {
      places.set(item[mergeKey], base.length);
      base.push(dropDirectives(item));
    } else base[place] = yield* mergeMap(schema?.items, base[place] as JsonMap, item, depth + 1);
  }
  return arrange(base, order ?? changes, original, mergeKey);
}

function keyOf(item: unknown, mergeKey: string): unknown {
  if (!isJsonObject(item) || !Object.hasOwn(item, mergeKey)) throw missingKey(item, mergeKey);
  return item[mergeKey];
}

/** Items of the patch, except deletions, must appear in the order list in the same order. */
function checkOrder(patch: readonly unknown[], order: readonly unknown[], mergeKey: string | undefined): void {
  const identity = (item: unknown) => (mergeKey === undefined ? item : keyOf(item, mergeKey));
  if (order.length === 0 || patch.length === 0) return;
  const wanted = patch.filter((item) => !containsDirective(item)).map(identity);
  let at = 0;
  for (const item of order) if (at < wanted.length && identity(item) === wanted[at]) at++;
  if (at < wanted.length) {
    throw unclassifiedError(
      `The order in patch list:\n${goText(patch)}\n doesn't match $setElementOrder list:\n${goText(order)}\n`,
    );
  }
}

function deleteScalars(result: JsonMap, directive: string, values: unknown): void {
  if (!Array.isArray(values)) throw bad("invalid patch format of primitive list");
  const key = directive.slice(deletePrefix.length);
  const before = Object.hasOwn(result, key) ? result[key] : undefined;
  if (!Array.isArray(before)) return;
  const gone = new Set<unknown>(values);
  if (before.some((value) => gone.has(value)))
    setOwn(
      result,
      key,
      before.filter((value) => !gone.has(value)),
    );
}
