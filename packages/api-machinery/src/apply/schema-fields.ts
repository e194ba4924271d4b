import { type FieldNode, type FieldSet, fieldNode, leaf } from "./field-set.ts";
import type { PathElement } from "./path-element.ts";
import { fieldShape, resolveShape, type Shape } from "./shape.ts";

/**
 * A set as it has to be read under today's schema: what has become atomic since it was written is owned as a whole by who
 * owned a part of it (structured-merge-diff `ReconcileFieldSetWithSchema`). Returns `set` itself where nothing changes.
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
  // A place without a schema takes any form, so that its list form says nothing about the fields of an object there.
  if (shape.map) return shape.map.isAtomic;
  return shape.list?.isAtomic === true;
}

/**
 * The set with the declared fields that lead to its members as members too (structured-merge-diff
 * `EnsureNamedFieldsAreMembers`): whoever owned all that was set of a struct may remove the struct, with the defaults in it.
 *
 * Fields directly below the top are left out: an applier that leaves out the last thing it owned in `spec` does not take the
 * rest of `spec` with it.
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
