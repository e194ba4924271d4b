import { setImmediate as nextTurn } from "node:timers/promises";

/** Objects read or parsed in one turn of the event loop, which takes a few milliseconds. */
export const sliceSize = 250;

/** Calls `each` with slices of at most `size` items, in order, one slice per turn of the event loop. */
export async function forEachSlice<T>(
  items: readonly T[],
  each: (slice: readonly T[]) => void | Promise<void>,
  size: number = sliceSize,
): Promise<void> {
  for (let start = 0; start < items.length; start += size) {
    if (start > 0) await nextTurn();
    await each(items.slice(start, start + size));
  }
}
