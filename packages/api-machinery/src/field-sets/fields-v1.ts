import { isJsonObject, type JsonObject, setOwn } from "../objects/json.ts";
import { emptySet, type FieldNode, type FieldSet, fieldNode, leaf, union } from "./field-set.ts";
import { runSteps, type Steps } from "../values/steps.ts";
import { parsePathElement, type PathElement, sortPathElements } from "./path-element.ts";

/** The maximum nesting of FieldsV1: deeper than any schema, shallow enough for the stack. */
export const maxFieldDepth = 256;

// Stored objects are frozen and shared, so results can be cached by their identity.
const parsed = new WeakMap<object, FieldSet>();
const written = new WeakMap<FieldSet, JsonObject>();

/**
 * Parses FieldsV1 (meta/v1). Path elements of unknown kinds are skipped.
 *
 * **Errors**: a `SyntaxError` that names the key if it is malformed or nests deeper than `maxFieldDepth`.
 */
export function parseFieldsV1(fields: unknown): FieldSet {
  if (fields === undefined || fields === null) return emptySet;
  if (!isJsonObject(fields)) throw new SyntaxError("fieldsV1 must be an object");
  const known = parsed.get(fields);
  if (known !== undefined) return known;
  const set = parseLevel(fields, 0)?.below ?? emptySet;
  // Mutable values must not be cached by identity.
  if (Object.isFrozen(fields)) {
    parsed.set(fields, set);
    if (!written.has(set)) written.set(set, fields);
  }
  return set;
}

/** A level is a member if it contains `.` or nothing else. */
function parseLevel(fields: JsonObject, depth: number): FieldNode | undefined {
  if (depth > maxFieldDepth) throw new SyntaxError(`fieldsV1 nests deeper than ${maxFieldDepth} levels`);
  let owned = false;
  let below: Map<PathElement, FieldNode> | undefined;
  for (const key in fields) {
    if (!Object.hasOwn(fields, key)) continue;
    if (key === ".") {
      owned = true;
      continue;
    }
    const element = parsePathElement(key);
    if (element === undefined) continue;
    const value = fields[key];
    if (!isJsonObject(value)) throw new SyntaxError(`fieldsV1 has no object at ${JSON.stringify(key)}`);
    const node = parseLevel(value, depth + 1);
    if (node === undefined) continue;
    below ??= new Map();
    const present = below.get(element);
    below.set(element, present === undefined ? node : joined(element, present, node));
  }
  return below === undefined ? leaf : fieldNode(owned, below);
}

/** Two spellings of the same key are one element. */
function joined(element: PathElement, left: FieldNode, right: FieldNode): FieldNode {
  return union(new Map([[element, left]]), new Map([[element, right]])).get(element) ?? left;
}

/**
 * Formats a set as FieldsV1 in the API server's order: sorted elements, `.` last. The result is frozen and, within the cache,
 * the same for equal sets: most objects of a kind are written by the same managers, and managedFields are half of an object.
 */
export function formatFieldsV1(set: FieldSet): JsonObject {
  return runSteps(formatFieldsV1InSteps(set));
}

/** Like {@link formatFieldsV1}, in steps. */
export function* formatFieldsV1InSteps(set: FieldSet): Steps<JsonObject> {
  const known = written.get(set);
  if (known !== undefined) return known;
  const fields = isSmall(set) ? sharedFields(formatLevel(set, false)) : yield* formatLargeLevel(set, false);
  if (!parsed.has(fields)) parsed.set(fields, set);
  written.set(set, fields);
  return fields;
}

/** Whether a set is small enough for {@link maxSharedLength}. */
function isSmall(set: FieldSet): boolean {
  let count = 0;
  const visit = (level: FieldSet): boolean => {
    count += level.size;
    if (count > maxSharedElements) return false;
    for (const { below } of level.values()) if (below !== undefined && !visit(below)) return false;
    return true;
  };
  return visit(set);
}

/** Equal fields that were formatted earlier, or these. */
function sharedFields(fields: JsonObject): JsonObject {
  const text = JSON.stringify(fields);
  if (text.length > maxSharedLength) return fields;
  const known = shared.get(text);
  if (known !== undefined) return known;
  // Bounded: a full cache starts over.
  if (shared.size >= maxShared) shared.clear();
  shared.set(text, fields);
  return fields;
}

/** FieldsV1 by text. */
const shared = new Map<string, JsonObject>();
const maxShared = 256;
const maxSharedLength = 2_048;
/** Each takes at least eight characters. */
const maxSharedElements = maxSharedLength / 8;

const memberOnly: JsonObject = Object.freeze({});

/** The begin of a level. As in Kubernetes the level itself comes before its elements: clients compare the bytes. */
const levelOf = (owned: boolean): JsonObject => (owned ? { ".": memberOnly } : {});

function formatLevel(set: FieldSet, owned: boolean): JsonObject {
  const fields = levelOf(owned);
  const elements = set.size > 1 ? sortPathElements(set.keys()) : set.keys();
  for (const element of elements) {
    const node = set.get(element);
    if (node !== undefined) setOwn(fields, element, node.below ? formatLevel(node.below, node.owned) : memberOnly);
  }
  return Object.freeze(fields);
}

/** Elements that are formatted in one step. */
const elementsPerStep = 5_000;

function* formatLargeLevel(set: FieldSet, owned: boolean): Steps<JsonObject> {
  const fields = levelOf(owned);
  const elements = sortPathElements(set.keys());
  for (const [index, element] of elements.entries()) {
    if (index % elementsPerStep === 0) yield;
    const below = set.get(element)?.below;
    const isOwned = set.get(element)?.owned === true;
    if (below === undefined) setOwn(fields, element, memberOnly);
    else if (isSmall(below)) setOwn(fields, element, formatLevel(below, isOwned));
    else setOwn(fields, element, yield* formatLargeLevel(below, isOwned));
  }
  return Object.freeze(fields);
}
