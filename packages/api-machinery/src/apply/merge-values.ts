import { isJsonObject, jsonEquals, type JsonObject, setOwn } from "../objects/json.ts";
import { itemElement } from "../field-sets/list-item.ts";
import type { PathElement } from "../field-sets/path-element.ts";
import { fieldShape, deducedShape, type ListShape, type MapShape, resolveShape, type Shape } from "../field-sets/shape.ts";
import { formOf } from "../field-sets/value-form.ts";

/**
 * Merges an applied configuration into a live value (structured-merge-diff `Merge`): objects by field, keyed lists by item,
 * everything else as a whole. Nothing is removed. Unchanged parts are shared with `live`; if nothing changes, the result is
 * `live` itself. The configuration must have passed `fieldsOfConfig`.
 */
export function mergeValues(live: unknown, config: unknown, shape: Shape): unknown {
  if (config === undefined || live === config) return live;
  if (live === undefined) return config;
  const form = formOf(config, shape);
  if (form === formOf(live, shape)) {
    if (form === "map" && shape.map && !shape.map.isAtomic) {
      if (isJsonObject(live) && config === null && Object.keys(live).length > 0) return live;
      if (isJsonObject(live) && isJsonObject(config)) return mergeMaps(live, config, shape.map);
    } else if (form === "list" && shape.list && !shape.list.isAtomic) {
      if (Array.isArray(live) && config === null && live.length > 0) return live;
      if (Array.isArray(live) && Array.isArray(config) && live.length + config.length > 0) {
        return mergeLists(live, config, shape.list);
      }
    }
  }
  return jsonEquals(live, config) ? live : config;
}

function mergeMaps(live: JsonObject, config: JsonObject, map: MapShape): JsonObject {
  let result: JsonObject | undefined;
  for (const name in config) {
    if (!Object.hasOwn(config, name)) continue;
    const present = Object.hasOwn(live, name) ? live[name] : undefined;
    const merged = mergeValues(present, config[name], fieldShape(map, name) ?? deducedShape);
    if (merged === present || merged === undefined) continue;
    result ??= { ...live };
    setOwn(result, name, merged);
  }
  return result ?? live;
}

interface Indexed {
  readonly elements: readonly (PathElement | undefined)[];
  /** The item per element; null if the live list has it more than once: duplicates are replaced, not merged. */
  readonly items: ReadonlyMap<PathElement, unknown>;
}

/**
 * Keeps the live order unless the configuration says otherwise: shared items follow the order of the configuration, live
 * items keep their position between them, and new items follow their predecessor in the configuration.
 */
function mergeLists(live: readonly unknown[], config: readonly unknown[], list: ListShape): readonly unknown[] {
  const left = index(live, list);
  const right = index(config, list);
  const element = resolveShape(list.element);
  const shared = right.elements.filter((key) => key !== undefined && left.items.has(key));
  const result: unknown[] = [];
  const taken = new Set<PathElement>();
  let sharedIndex = 0;
  let l = 0;
  let r = 0;
  const take = (key: PathElement): void => {
    taken.add(key);
    const present = left.items.get(key);
    const item = right.items.get(key);
    result.push(present === null ? item : mergeValues(present, item, element));
    if (shared[sharedIndex] === key) sharedIndex++;
    r++;
  };
  while (l < left.elements.length || r < right.elements.length) {
    const leftKey = left.elements[l];
    const rightKey = right.elements[r];
    if (l < left.elements.length) {
      if (leftKey === undefined || !right.items.has(leftKey)) {
        result.push(live[l]);
        l++;
        continue;
      }
      if (leftKey === rightKey) {
        take(leftKey);
        l++;
        continue;
      }
      if (r < right.elements.length && sharedIndex < shared.length && shared[sharedIndex] !== leftKey) {
        // Shared but not next in the configuration's order: emitted at its turn.
        l++;
        continue;
      }
      if (taken.has(leftKey)) l++;
    }
    if (rightKey !== undefined) take(rightKey);
    else if (r < right.elements.length) r++;
  }
  return result.length === live.length && result.every((item, position) => item === live[position]) ? live : result;
}

function index(items: readonly unknown[], list: ListShape): Indexed {
  const elements: (PathElement | undefined)[] = [];
  const byElement = new Map<PathElement, unknown>();
  for (const item of items) {
    const key = itemElement(list, item);
    if (typeof key !== "string") {
      elements.push(undefined);
      continue;
    }
    byElement.set(key, byElement.has(key) ? null : item);
    elements.push(key);
  }
  return { elements, items: byElement };
}
