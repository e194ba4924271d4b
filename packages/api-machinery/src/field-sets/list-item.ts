import { isJsonObject } from "../objects/json.ts";
import { keyElement, singleKeyElement, type PathElement, valueElement } from "./path-element.ts";
import { type ListShape, resolveShape, type ScalarShape } from "./shape.ts";

/** An item of an associative list cannot be identified. */
export interface ItemProblem {
  readonly problem: string;
}

/**
 * Returns the path element of an item of an associative list: its keys, with defaults for omitted ones, or its value in a
 * set. A key without a default may be missing if another one is present.
 */
export function itemElement(list: ListShape, item: unknown): PathElement | ItemProblem {
  if (list.keys.length === 0) {
    if (typeof item === "object") {
      const what = item === null ? "an explicit null" : Array.isArray(item) ? "a list type" : "a map type";
      return { problem: `associative list without keys has an element that's ${what}` };
    }
    return valueElement(item);
  }
  if (!isJsonObject(item)) {
    return { problem: `associative list with keys may not have ${item === null ? "a null element" : "non-map elements"}` };
  }
  const [single] = list.keys;
  if (list.keys.length === 1 && single !== undefined && Object.hasOwn(item, single)) {
    return singleKeyElement(single, item[single]);
  }
  const names: string[] = [];
  const values: unknown[] = [];
  for (const name of list.keys) {
    const value = Object.hasOwn(item, name) ? item[name] : defaultOf(list, name);
    if (value === undefined) continue;
    names.push(name);
    values.push(value);
  }
  return names.length > 0 ? keyElement(names, values) : { problem: withoutKeys(list.keys) };
}

function withoutKeys(keys: readonly string[]): string {
  const shown = keys.map((key) => JSON.stringify(key)).join(" ");
  return `associative list with keys has an element that omits all key fields [${shown}] (and doesn't have default values for any key fields)`;
}

const zeroKeys: Readonly<Record<ScalarShape, unknown>> = { string: "", number: 0, boolean: false, any: undefined };

function defaultOf(list: ListShape, name: string): unknown {
  const field = resolveShape(list.element).map?.fields.get(name);
  if (field === undefined || field.default !== undefined || !list.hasZeroKeys) return field?.default;
  const { scalar } = resolveShape(field);
  return scalar === undefined ? undefined : zeroKeys[scalar];
}
