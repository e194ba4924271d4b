import { comparePathElements, type PathElement } from "./path-element.ts";

/**
 * A set of fields: a tree of path elements, each of which is a member (`owned`), has members below it, or both. Sets are
 * immutable; the functions here share structure and return an argument itself if the result equals it.
 *
 *     .spec.containers[name="a"].image
 *     f:spec > f:containers > k:{"name":"a"} > f:image (owned)
 */
export type FieldSet = ReadonlyMap<PathElement, FieldNode>;

/** A path element within a {@link FieldSet}. `below` is never an empty set. */
export interface FieldNode {
  readonly owned: boolean;
  readonly below: FieldSet | undefined;
}

/** The set without members. */
export const emptySet: FieldSet = new Map();

/** The node of a field that is a member and has no members below it. */
export const leaf: FieldNode = { owned: true, below: undefined };

/** Creates a node; `undefined` if it would be empty. */
export function fieldNode(owned: boolean, below: FieldSet | undefined): FieldNode | undefined {
  if (below === undefined || below.size === 0) return owned ? leaf : undefined;
  return { owned, below };
}

/** Creates a set from paths. */
export function fieldSet(...paths: readonly (readonly PathElement[])[]): FieldSet {
  let result = emptySet;
  for (const path of paths) {
    let node: FieldNode | undefined = leaf;
    for (let index = path.length - 1; index > 0; index--) {
      node = fieldNode(false, new Map([[path[index] ?? "", node]]));
      if (node === undefined) break;
    }
    if (path.length > 0 && node !== undefined) result = union(result, new Map([[path[0] ?? "", node]]));
  }
  return result;
}

/** Returns the union. */
export function union(left: FieldSet, right: FieldSet): FieldSet {
  if (left === right || right.size === 0) return left;
  if (left.size === 0) return right;
  let result: Map<PathElement, FieldNode> | undefined;
  for (const [element, node] of right) {
    const present = left.get(element);
    const merged = present === undefined ? node : unionNodes(present, node);
    if (merged === present) continue;
    result ??= new Map(left);
    result.set(element, merged);
  }
  return result ?? left;
}

function unionNodes(left: FieldNode, right: FieldNode): FieldNode {
  if (left === right) return left;
  const below = left.below && right.below ? union(left.below, right.below) : (left.below ?? right.below);
  const owned = left.owned || right.owned;
  return owned === left.owned && below === left.below ? left : { owned, below };
}

/** Returns the intersection. */
export function intersection(left: FieldSet, right: FieldSet): FieldSet {
  if (left === right || left.size === 0) return left;
  if (right.size === 0) return emptySet;
  const result = new Map<PathElement, FieldNode>();
  const [small, large] = left.size <= right.size ? [left, right] : [right, left];
  for (const [element, node] of small) {
    const other = large.get(element);
    if (other === undefined) continue;
    const below = node.below && other.below ? intersection(node.below, other.below) : undefined;
    const merged = fieldNode(node.owned && other.owned, below);
    if (merged !== undefined) result.set(element, merged);
  }
  return result;
}

/** Returns the members of `left` that are not in `right`. A member stays if only its parent is in `right`. */
export function difference(left: FieldSet, right: FieldSet): FieldSet {
  return subtract(left, right, false);
}

/** Returns the members of `left` that are neither in `right` nor below a member of `right`. */
export function differenceWithSubtrees(left: FieldSet, right: FieldSet): FieldSet {
  return subtract(left, right, true);
}

function subtract(left: FieldSet, right: FieldSet, withSubtrees: boolean): FieldSet {
  if (left.size === 0 || right.size === 0) return left;
  let result: Map<PathElement, FieldNode> | undefined;
  for (const [element, other] of right) {
    const node = left.get(element);
    if (node === undefined) continue;
    let below = node.below;
    if (withSubtrees && other.owned) below = undefined;
    else if (below && other.below) below = subtract(below, other.below, withSubtrees);
    const owned = node.owned && !other.owned;
    if (owned === node.owned && below === node.below) continue;
    result ??= new Map(left);
    const remaining = fieldNode(owned, below);
    if (remaining === undefined) result.delete(element);
    else result.set(element, remaining);
  }
  return result ?? left;
}

/** Reports whether every member of `part` is a member of `whole`. */
export function includes(whole: FieldSet, part: FieldSet): boolean {
  if (whole === part) return true;
  for (const [element, node] of part) {
    const present = whole.get(element);
    if (present === undefined) return false;
    if (present === node) continue;
    if (node.owned && !present.owned) return false;
    if (node.below && !(present.below && includes(present.below, node.below))) return false;
  }
  return true;
}

/** Reports whether two sets have the same members. */
export function setsEqual(left: FieldSet, right: FieldSet): boolean {
  if (left === right) return true;
  if (left.size !== right.size) return false;
  for (const [element, node] of left) {
    const other = right.get(element);
    if (other === undefined || other.owned !== node.owned) return false;
    if (node.below === other.below) continue;
    if (!node.below || !other.below || !setsEqual(node.below, other.below)) return false;
  }
  return true;
}

/** Reports whether the field at `path` is a member. */
export function hasPath(set: FieldSet, path: readonly PathElement[]): boolean {
  let level: FieldSet | undefined = set;
  for (let index = 0; index < path.length; index++) {
    const node: FieldNode | undefined = level?.get(path[index] ?? "");
    if (node === undefined) return false;
    if (index === path.length - 1) return node.owned;
    level = node.below;
  }
  return false;
}

/** Returns the paths of all members in the order of FieldsV1: at each level its members first, then those below. */
export function pathsOf(set: FieldSet): PathElement[][] {
  const paths: PathElement[][] = [];
  collect(set, [], paths);
  return paths;
}

function collect(set: FieldSet, prefix: readonly PathElement[], into: PathElement[][]): void {
  const elements = [...set.keys()].sort(comparePathElements);
  for (const element of elements) if (set.get(element)?.owned) into.push([...prefix, element]);
  for (const element of elements) {
    const below = set.get(element)?.below;
    if (below) collect(below, [...prefix, element], into);
  }
}
