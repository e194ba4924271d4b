import { isJsonObject } from "../objects/json.ts";

/**
 * Orders a merged list: items named by `wanted` keep its order, other items keep that of the old list. When the two are
 * interleaved, another item comes first only if it came before the wanted one in the old list.
 */
export function arrange(
  merged: readonly unknown[],
  wanted: readonly unknown[],
  before: readonly unknown[],
  mergeKey: string | undefined,
): unknown[] {
  const identity = (item: unknown) => (mergeKey === undefined ? item : isJsonObject(item) ? item[mergeKey] : undefined);
  const wantedAt = positions(wanted, identity);
  const beforeAt = positions(before, identity);
  const at = (places: ReadonlyMap<unknown, number>, item: unknown) => places.get(identity(item)) ?? Infinity;
  const ours = merged.filter((item) => wantedAt.has(identity(item))).toSorted((a, b) => at(wantedAt, a) - at(wantedAt, b));
  const others = merged.filter((item) => !wantedAt.has(identity(item)));
  const result: unknown[] = [];
  let left = 0;
  let right = 0;
  while (left < others.length && right < ours.length) {
    const other = beforeAt.get(identity(others[left]));
    const own = beforeAt.get(identity(ours[right]));
    const isOtherFirst = other !== undefined && own !== undefined && other < own;
    result.push(isOtherFirst ? others[left++] : ours[right++]);
  }
  return [...result, ...others.slice(left), ...ours.slice(right)];
}

function positions(items: readonly unknown[], identity: (item: unknown) => unknown): Map<unknown, number> {
  const result = new Map<unknown, number>();
  items.forEach((item, index) => {
    const key = identity(item);
    if (!result.has(key)) result.set(key, index);
  });
  return result;
}
