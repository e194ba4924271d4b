import { isJsonObject } from "../objects/json.ts";
import { keyElement, singleKeyElement, type PathElement, valueElement } from "./path-element.ts";
import { type ListShape, resolveShape } from "./shape.ts";

/** An item of an associative list cannot be identified. */
export interface ItemProblem {
  readonly problem: string;
}

/**
 * Returns the path element of an item of an associative list: its keys, with defaults for omitted ones, or its value in a
 * set.
 */
export function itemElement(list: ListShape, item: unknown): PathElement | ItemProblem {
  if (list.keys.length === 0) {
    if (typeof item === "object") {
      return {
        problem: `an item of a set must be a scalar, not ${item === null ? "null" : Array.isArray(item) ? "a list" : "an object"}`,
      };
    }
    return valueElement(item);
  }
  if (!isJsonObject(item)) return { problem: `an item of a list with keys must be an object with ${list.keys.join(", ")}` };
  const [single] = list.keys;
  if (list.keys.length === 1 && single !== undefined && Object.hasOwn(item, single)) {
    return singleKeyElement(single, item[single]);
  }
  const values: unknown[] = [];
  for (const name of list.keys) {
    const value = Object.hasOwn(item, name) ? item[name] : defaultOf(list, name);
    if (value === undefined) return { problem: `the item has no key ${JSON.stringify(name)}, and the key has no default` };
    values.push(value);
  }
  return keyElement(list.keys, values);
}

function defaultOf(list: ListShape, name: string): unknown {
  return resolveShape(list.element).map?.fields.get(name)?.default;
}
