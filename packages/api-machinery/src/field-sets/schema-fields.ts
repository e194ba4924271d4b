import { type FieldNode, type FieldSet, fieldNode, leaf } from "./field-set.ts";
import type { PathElement } from "./path-element.ts";
import { fieldShape, resolveShape, type Shape } from "./shape.ts";

/**
 * Reconciles a set with the current schema: a part of what has become atomic since counts as the whole (structured-merge-diff
 * `ReconcileFieldSetWithSchema`). Returns `set` itself if nothing changes.
 */
export function reconcileWithSchema(set: FieldSet, shape: Shape): FieldSet {
  let result: Map<PathElement, FieldNode> | undefined;
  for (const [element, node] of set) {
    if (!node.below) continue;
    const below = shapeBelow(element, shape);
    if (below === undefined) continue;
    let replaced: FieldNode | undefined = node;
    if (isAtomic(below)) {
      replaced = leaf;
    } else {
      const fields = reconcileWithSchema(node.below, below);
      if (fields !== node.below) replaced = fieldNode(node.owned, fields);
    }
    if (replaced === node || replaced === undefined) continue;
    result ??= new Map(set);
    result.set(element, replaced);
  }
  return result ?? set;
}

function isAtomic(shape: Shape): boolean {
  // A value without a schema may have any form, so its list form says nothing about an object's fields.
  if (shape.map) return shape.map.isAtomic;
  return shape.list?.isAtomic === true;
}

/**
 * Adds the declared fields that lead to members (structured-merge-diff `EnsureNamedFieldsAreMembers`): a manager that owned
 * all set fields of a struct may remove the struct, with the defaults in it.
 *
 * Top-level fields are excluded: an applier that omits the last field it owned in `spec` does not remove the rest of `spec`.
 */
export function withNamedFields(set: FieldSet, shape: Shape, depth = 0): FieldSet {
  let result: Map<PathElement, FieldNode> | undefined;
  for (const [element, node] of set) {
    if (!node.below) continue;
    const below = shapeBelow(element, shape);
    const fields = below === undefined ? node.below : withNamedFields(node.below, below, depth + 1);
    const owned = node.owned || (depth > 0 && element[0] === "f" && shape.map?.fields.has(element.slice(2)) === true);
    if (fields === node.below && owned === node.owned) continue;
    result ??= new Map(set);
    result.set(element, { owned, below: fields });
  }
  return result ?? set;
}

function shapeBelow(element: PathElement, shape: Shape): Shape | undefined {
  if (element[0] === "f") return shape.map && fieldShape(shape.map, element.slice(2));
  return shape.list && resolveShape(shape.list.element);
}
