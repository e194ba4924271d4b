import { isJsonObject } from "@keelson/api-machinery";

/** A path step: a key or index, every element, or the list elements with a value under a key. */
type Segment =
  | { readonly kind: "key"; readonly key: string }
  | { readonly kind: "every" }
  | { readonly kind: "where"; readonly list: string; readonly key: string; readonly value: string };

/** Splits `/a/b[name=x]/*` at slashes outside brackets. */
function segmentsOf(path: string): Segment[] {
  const texts = path.slice(1).match(/(?:[^/[]|\[[^\]]*\])+/g) ?? [];
  const unescape = (text: string): string => text.replaceAll("~1", "/").replaceAll("~0", "~");
  return texts.map((text) => {
    if (text === "*") return { kind: "every" };
    const where = /^([^[]*)\[([^=\]]+)=([^\]]*)\]$/.exec(text);
    if (where === null) return { kind: "key", key: unescape(text) };
    return { kind: "where", list: unescape(where[1] ?? ""), key: where[2] ?? "", value: where[3] ?? "" };
  });
}

/** Whether a path may lead to several values. */
export function isPlural(path: string): boolean {
  return segmentsOf(path).some(({ kind }) => kind === "every");
}

/** All values at a path, in order. */
export function valuesAt(document: unknown, path: string): unknown[] {
  let values = [document];
  for (const segment of segmentsOf(path)) {
    values = values.flatMap((value): unknown[] => {
      if (segment.kind === "every") return childrenOf(value);
      if (segment.kind === "where") return itemsWhere(value, segment);
      const child = childAt(value, segment.key);
      return child === undefined ? [] : [child];
    });
  }
  return values;
}

/** Removes the values at a path, in place. */
export function removeAt(document: unknown, path: string): void {
  const segments = segmentsOf(path);
  const last = segments.pop();
  if (last === undefined) return;
  let parents = [document];
  for (const segment of segments) {
    parents = parents.flatMap((parent): unknown[] => {
      if (segment.kind === "every") return childrenOf(parent);
      return segment.kind === "where" ? itemsWhere(parent, segment) : [childAt(parent, segment.key)];
    });
  }
  for (const parent of parents) {
    if (last.kind === "key" && isJsonObject(parent)) delete parent[last.key];
    else if (last.kind === "where") {
      const list = last.list === "" ? parent : childAt(parent, last.list);
      const found = new Set(itemsWhere(parent, last));
      if (Array.isArray(list)) list.splice(0, list.length, ...list.filter((item) => !found.has(item)));
    }
  }
}

function childAt(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return /^\d+$/.test(key) ? value[Number(key)] : undefined;
  return isJsonObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** The value of a key, or at a path of keys joined by dots. */
function memberOf(value: unknown, key: string): unknown {
  if (!isJsonObject(value)) return undefined;
  if (Object.hasOwn(value, key)) return value[key];
  const dot = key.indexOf(".");
  return dot < 0 ? undefined : memberOf(value[key.slice(0, dot)], key.slice(dot + 1));
}

function childrenOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  return isJsonObject(value) ? Object.values(value) : [];
}

function itemsWhere(value: unknown, { list, key, value: wanted }: Extract<Segment, { kind: "where" }>): unknown[] {
  const items = list === "" ? value : childAt(value, list);
  if (!Array.isArray(items)) return [];
  return items.filter((item) => isJsonObject(item) && String(memberOf(item, key)) === wanted);
}
