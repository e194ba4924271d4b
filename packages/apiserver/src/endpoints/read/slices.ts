import { setImmediate as nextTurn } from "node:timers/promises";

/** How many objects are read or parsed in one turn of the event loop: a few milliseconds. */
export const sliceSize = 250;

/** Calls `each` with the items in order, at most `size` of them in one turn of the event loop; others have their turn between. */
export async function inSlices<T>(
  items: readonly T[],
  each: (slice: readonly T[]) => void,
  size: number = sliceSize,
): Promise<void> {
  for (let start = 0; start < items.length; start += size) {
    if (start > 0) await nextTurn();
    each(items.slice(start, start + size));
  }
}
