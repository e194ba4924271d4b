import { isJsonObject, jsonEquals, type JsonObject } from "../objects/json.ts";
import { emptySet, type FieldNode, type FieldSet, fieldNode, leaf, union } from "../field-sets/field-set.ts";
import { nodeOfWhole } from "../field-sets/fields-of-value.ts";
import { itemElement } from "../field-sets/list-item.ts";
import { fieldElement, type PathElement } from "../field-sets/path-element.ts";
import { deducedShape, type ListShape, type MapShape, resolveShape, type Shape } from "../field-sets/shape.ts";
import { type Form, formOf } from "../field-sets/value-form.ts";

/**
 * The differences between two values: fields added or modified, and fields removed. A removed field implies everything below
 * it.
 */
export interface Comparison {
  readonly changed: FieldSet;
  readonly removed: FieldSet;
}

/** Options of {@link compareValues}. */
export interface CompareOptions {
  /** The values are of a built-in kind, where omitted structs exist and are empty, as in the Go types. */
  readonly isBuiltIn: boolean;
}

/** Compares two values of a shape (structured-merge-diff `Compare`). Parts that both share by identity cost nothing. */
export function compareValues(before: unknown, after: unknown, shape: Shape, options: CompareOptions): Comparison {
  const difference = compare(before, after, shape, options);
  return { changed: difference?.changed?.below ?? emptySet, removed: difference?.removed?.below ?? emptySet };
}

/** Compares two values at one path. `undefined` means no difference. */
interface Difference {
  readonly changed: FieldNode | undefined;
  readonly removed: FieldNode | undefined;
}

const modified: Difference = { changed: leaf, removed: undefined };

function compare(before: unknown, after: unknown, shape: Shape, options: CompareOptions): Difference | undefined {
  if (before === after) return undefined;
  if (before === undefined) return { changed: nodeOfWhole(after, shape), removed: undefined };
  if (after === undefined) return { changed: undefined, removed: nodeOfWhole(before, shape) };
  const formBefore = formOf(before, shape);
  const formAfter = formOf(after, shape);
  if (formBefore === formAfter) return compareAs(formAfter, before, after, shape, options);
  const asBefore = compareAs(formBefore, before, after, shape, options);
  const asAfter = compareAs(formAfter, before, after, shape, options);
  return {
    changed: joined(asBefore?.changed, asAfter?.changed),
    removed: joined(asBefore?.removed, asAfter?.removed),
  };
}

function joined(left: FieldNode | undefined, right: FieldNode | undefined): FieldNode | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  const below = left.below && right.below ? union(left.below, right.below) : (left.below ?? right.below);
  return fieldNode(left.owned || right.owned, below);
}

function compareAs(form: Form, before: unknown, after: unknown, shape: Shape, options: CompareOptions): Difference | undefined {
  if (form === "map" && shape.map) {
    const left = isJsonObject(before) ? before : undefined;
    const right = isJsonObject(after) ? after : undefined;
    if (!shape.map.isAtomic && !(isEmpty(left) && isEmpty(right))) return compareMaps(left, right, shape.map, options);
  } else if (form === "list" && shape.list) {
    const left: readonly unknown[] = Array.isArray(before) ? before : [];
    const right: readonly unknown[] = Array.isArray(after) ? after : [];
    if (!shape.list.isAtomic && left.length + right.length > 0) return compareLists(left, right, shape.list, options);
  }
  return jsonEquals(before, after) ? undefined : modified;
}

function isEmpty(value: JsonObject | undefined): boolean {
  if (value !== undefined) for (const name in value) if (Object.hasOwn(value, name)) return false;
  return true;
}

class Differences {
  #changed: Map<PathElement, FieldNode> | undefined;
  #removed: Map<PathElement, FieldNode> | undefined;

  add(element: PathElement, difference: Difference | undefined): void {
    if (difference?.changed) {
      this.#changed ??= new Map();
      this.#changed.set(element, difference.changed);
    }
    if (difference?.removed) {
      this.#removed ??= new Map();
      this.#removed.set(element, difference.removed);
    }
  }

  result(): Difference | undefined {
    if (this.#changed === undefined && this.#removed === undefined) return undefined;
    return { changed: fieldNode(false, this.#changed), removed: fieldNode(false, this.#removed) };
  }
}

const noFields: JsonObject = Object.freeze({});

function compareMaps(
  before: JsonObject | undefined,
  after: JsonObject | undefined,
  map: MapShape,
  options: CompareOptions,
): Difference | undefined {
  const differences = new Differences();
  const left = before ?? noFields;
  const right = after ?? noFields;
  for (const name of Object.keys(right)) {
    const value = right[name];
    const previous = Object.hasOwn(left, name) ? left[name] : undefined;
    if (value === previous || value === undefined) continue;
    differences.add(fieldElement(name), compareField(name, previous, value, map, options));
  }
  for (const name of Object.keys(left)) {
    const value = left[name];
    if (value === undefined || (Object.hasOwn(right, name) && right[name] !== undefined)) continue;
    differences.add(fieldElement(name), compareField(name, value, undefined, map, options));
  }
  return differences.result();
}

function compareField(
  name: string,
  before: unknown,
  after: unknown,
  map: MapShape,
  options: CompareOptions,
): Difference | undefined {
  const field = map.fields.get(name);
  const lazy = field ?? map.element;
  const shape = lazy === undefined ? deducedShape : resolveShape(lazy);
  if (options.isBuiltIn && (before === undefined || after === undefined)) {
    const zero = field?.zeroValue;
    if (zero !== undefined) return compare(before ?? zero, after ?? zero, shape, options);
  }
  return compare(before, after, shape, options);
}

function compareLists(
  before: readonly unknown[],
  after: readonly unknown[],
  list: ListShape,
  options: CompareOptions,
): Difference | undefined {
  const differences = new Differences();
  const left = itemsByElement(before, list);
  const right = itemsByElement(after, list);
  const element = resolveShape(list.element);
  for (const [key, item] of right) differences.add(key, compare(left.get(key), item, element, options));
  for (const [key, item] of left) if (!right.has(key)) differences.add(key, compare(item, undefined, element, options));
  return differences.result();
}

/** Indexes the items of an associative list. Of duplicates, the first counts; items without a key are skipped. */
function itemsByElement(items: readonly unknown[], list: ListShape): Map<PathElement, unknown> {
  const result = new Map<PathElement, unknown>();
  for (const item of items) {
    const key = itemElement(list, item);
    if (typeof key === "string" && !result.has(key)) result.set(key, item);
  }
  return result;
}
