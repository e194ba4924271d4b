import { isJsonObject, type JsonObject, setOwn } from "../objects/json.ts";
import { emptySet, type FieldNode, type FieldSet } from "../field-sets/field-set.ts";
import { itemElement } from "../field-sets/list-item.ts";
import { fieldElement } from "../field-sets/path-element.ts";
import { deducedShape, fieldShape, type ListShape, type MapShape, resolveShape, type Shape } from "../field-sets/shape.ts";
import { formOf } from "../field-sets/value-form.ts";

/**
 * Removes the fields and list items of `set` (structured-merge-diff `RemoveItems`) and shares the rest. An object or list
 * that becomes empty is removed too, unless it is in `kept`; `undefined` if nothing remains.
 */
export function removeFields(value: unknown, set: FieldSet, shape: Shape, kept: FieldSet = emptySet): unknown {
  if (set.size === 0) return value;
  const form = formOf(value, shape);
  if (form === "map" && shape.map && !shape.map.isAtomic && isJsonObject(value))
    return removeFromMap(value, set, shape.map, kept);
  if (form === "list" && shape.list && !shape.list.isAtomic && Array.isArray(value))
    return removeFromList(value, set, shape.list, kept);
  return value;
}

function removeFromMap(value: JsonObject, set: FieldSet, map: MapShape, keptFields: FieldSet): JsonObject | undefined {
  let isChanged = false;
  let isEmpty = true;
  const result: JsonObject = {};
  for (const name of Object.keys(value)) {
    const child = value[name];
    const path = fieldElement(name);
    const node = set.get(path);
    let kept: unknown = child;
    if (node?.owned) kept = undefined;
    else if (node?.below) kept = removeBelow(child, node.below, fieldShape(map, name) ?? deducedShape, keptFields.get(path));
    if (kept !== child) isChanged = true;
    if (kept === undefined) continue;
    isEmpty = false;
    setOwn(result, name, kept);
  }
  if (!isChanged) return value;
  return isEmpty ? undefined : result;
}

function removeFromList(
  value: readonly unknown[],
  set: FieldSet,
  list: ListShape,
  keptItems: FieldSet,
): readonly unknown[] | undefined {
  const element = resolveShape(list.element);
  const result: unknown[] = [];
  let isChanged = false;
  for (const item of value) {
    const key = itemElement(list, item);
    const node = typeof key === "string" ? set.get(key) : undefined;
    let kept: unknown = item;
    if (node?.owned) kept = undefined;
    else if (node?.below)
      kept = removeBelow(item, node.below, element, typeof key === "string" ? keptItems.get(key) : undefined);
    if (kept !== item) isChanged = true;
    if (kept !== undefined) result.push(kept);
  }
  if (!isChanged) return value;
  return result.length === 0 ? undefined : result;
}

function removeBelow(value: unknown, set: FieldSet, shape: Shape, kept: FieldNode | undefined): unknown {
  const rest = removeFields(value, set, shape, kept?.below);
  if (rest !== undefined || kept?.owned !== true) return rest;
  return Array.isArray(value) ? [] : {};
}
