import { isJsonObject, type JsonObject } from "../objects/json.ts";
import { type FieldNode, type FieldSet, emptySet, fieldNode, leaf } from "./field-set.ts";
import { goText, goType } from "../patch/go-text.ts";
import { maxFieldDepth } from "./fields-v1.ts";
import { itemElement } from "./list-item.ts";
import { describePath, fieldElement, type PathElement } from "./path-element.ts";
import { fieldShape, type ListShape, type MapShape, resolveShape, type ScalarShape, type Shape } from "./shape.ts";
import { formOf } from "./value-form.ts";

/** A value does not match its schema. `path` is its location, such as `.spec.containers[name="a"]`. */
export class FieldError extends Error {
  readonly path: string;

  constructor(path: string, problem: string) {
    super(path === "" ? problem : `${path}: ${problem}`);
    this.name = "FieldError";
    this.path = path;
  }
}

/**
 * Returns the fields that the applier of `value` owns (structured-merge-diff `ToFieldSet`): scalars; atomic lists and objects
 * as a whole; items of keyed lists and of sets; keys of maps; empty objects and nulls. Declared objects with content are not owned themselves,
 * nor are empty lists.
 *
 * **Errors**: a {@link FieldError} for an undeclared field, a value of the wrong type, a list item without its keys, and a
 * duplicate.
 */
export function fieldsOfConfig(value: unknown, shape: Shape): FieldSet {
  return nodeOf(value, shape, { isStrict: true, trail: [] })?.below ?? emptySet;
}

/** Like {@link fieldsOfConfig}, but for a stored object, which is not validated: of duplicates, only the element is owned. */
export function fieldsOfObject(value: unknown, shape: Shape): FieldSet {
  return nodeOf(value, shape, { isStrict: false, trail: [] })?.below ?? emptySet;
}

interface Walk {
  readonly isStrict: boolean;
  readonly trail: PathElement[];
}

function nodeOf(value: unknown, shape: Shape, walk: Walk): FieldNode | undefined {
  if (walk.trail.length > maxFieldDepth) throw new FieldError("", `the object nests deeper than ${maxFieldDepth} levels`);
  switch (formOf(value, shape)) {
    case "map":
      return shape.map && nodeOfMap(value, shape.map, walk);
    case "list":
      return shape.list && nodeOfList(value, shape.list, walk);
    case "scalar":
      if (walk.isStrict && shape.scalar) checkScalar(value, shape.scalar, walk);
      return leaf;
  }
}

function nodeOfMap(value: unknown, map: MapShape, walk: Walk): FieldNode | undefined {
  if (!isJsonObject(value)) {
    if (walk.isStrict && value !== null) fail(walk, `expected map, got &{${goText(value)}}`);
    return map.isAtomic ? leaf : undefined;
  }
  if (map.isAtomic && !walk.isStrict) return leaf;
  const below = new Map<PathElement, FieldNode>();
  for (const name in value) {
    if (!Object.hasOwn(value, name)) continue;
    const child = value[name];
    if (child === undefined) continue;
    const element = fieldElement(name);
    walk.trail.push(element);
    const shape = fieldShape(map, name);
    if (shape === undefined && walk.isStrict) fail(walk, "field not declared in schema");
    const node = shape === undefined ? leaf : nodeOf(child, shape, walk);
    walk.trail.pop();
    const owned = node?.owned || child === null || isEmptyObject(child) || !map.fields.has(name);
    const kept = owned === node?.owned ? node : fieldNode(owned, node?.below);
    if (kept !== undefined) below.set(element, kept);
  }
  return map.isAtomic ? leaf : fieldNode(false, below);
}

function isEmptyObject(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  for (const name in value) if (Object.hasOwn(value, name)) return false;
  return true;
}

function nodeOfList(value: unknown, list: ListShape, walk: Walk): FieldNode | undefined {
  if (!Array.isArray(value)) {
    if (walk.isStrict && value !== null) fail(walk, `expected list, got &{${goText(value)}}`);
    return list.isAtomic ? leaf : undefined;
  }
  if (list.isAtomic) {
    if (walk.isStrict) checkAtomicItems(value, list, walk);
    return leaf;
  }
  const below = new Map<PathElement, FieldNode>();
  const element = resolveShape(list.element);
  for (let index = 0; index < value.length; index++) {
    const item: unknown = value[index];
    const key = itemElement(list, item);
    if (typeof key !== "string") {
      if (walk.isStrict) fail(walk, `element ${index}: ${key.problem}`);
      continue;
    }
    if (below.has(key)) {
      if (walk.isStrict) fail(walk, `duplicate entries for key ${describePath([key])}`);
      below.set(key, leaf);
      continue;
    }
    if (list.keys.length === 0) {
      walk.trail.push(key);
      if (walk.isStrict && element.scalar) checkScalar(item, element.scalar, walk);
      walk.trail.pop();
      below.set(key, leaf);
      continue;
    }
    walk.trail.push(key);
    const node = nodeOf(item, element, walk);
    walk.trail.pop();
    below.set(key, node?.below ? { owned: true, below: node.below } : leaf);
  }
  return fieldNode(false, below);
}

function checkAtomicItems(items: readonly unknown[], list: ListShape, walk: Walk): void {
  const element = resolveShape(list.element);
  for (let index = 0; index < items.length; index++) {
    walk.trail.push(`i:${index}`);
    nodeOf(items[index], element, walk);
    walk.trail.pop();
  }
}

function checkScalar(value: unknown, scalar: ScalarShape, walk: Walk): void {
  if (value === null || typeof value === scalar) return;
  if (scalar === "any" && typeof value !== "object") return;
  fail(walk, expectedScalar(value, scalar));
}

/** The messages of structured-merge-diff, which formats values with Go's `%T`, `%#v` and `%v`. */
function expectedScalar(value: unknown, scalar: ScalarShape): string {
  switch (scalar) {
    case "number":
      return `expected numeric (int or float), got ${goType(value)}`;
    case "string":
      return `expected string, got &value.valueUnstructured{Value:${goText(value)}}`;
    case "boolean":
      return `expected boolean, got &{${goText(value)}}`;
    case "any":
      return `expected any scalar, got &{${goText(value)}}`;
  }
}

function fail(walk: Walk, problem: string): never {
  throw new FieldError(describePath(walk.trail), problem);
}

/** Returns the fields that a new `value` adds: every field, including those that contain others. */
export function nodeOfWhole(value: unknown, shape: Shape, depth = 0): FieldNode {
  if (depth > maxFieldDepth) throw new FieldError("", `the object nests deeper than ${maxFieldDepth} levels`);
  const form = formOf(value, shape);
  if (form === "map" && shape.map && !shape.map.isAtomic && isJsonObject(value)) {
    return wholeMap(value, shape.map, depth);
  }
  if (form === "list" && shape.list && !shape.list.isAtomic && Array.isArray(value) && value.length > 0) {
    const below = new Map<PathElement, FieldNode>();
    const element = resolveShape(shape.list.element);
    for (const item of value) {
      const key = itemElement(shape.list, item);
      if (typeof key === "string" && !below.has(key)) below.set(key, nodeOfWhole(item, element, depth + 1));
    }
    return fieldNode(true, below) ?? leaf;
  }
  return leaf;
}

function wholeMap(value: JsonObject, map: MapShape, depth: number): FieldNode {
  const below = new Map<PathElement, FieldNode>();
  for (const name of Object.keys(value)) {
    const child = value[name];
    if (child === undefined) continue;
    const shape = fieldShape(map, name);
    below.set(fieldElement(name), shape === undefined ? leaf : nodeOfWhole(child, shape, depth + 1));
  }
  return fieldNode(true, below) ?? leaf;
}
