import { setImmediate } from "node:timers/promises";
import type { Selection } from "./selection.ts";

/** Objects read or parsed in one turn of the event loop, which takes a few milliseconds. */
export const sliceSize = 250;

/** Objects whose bytes are copied in one turn: they are not parsed. */
export const copiedObjects = 2_000;

/** Bytes of JSON read or parsed in one turn, give or take one object. */
export const sliceBytes = 512 * 1024;

/** Comparisons of a selector in one turn: each takes up to 1 µs on a busy machine. */
const sliceComparisons = 10_000;

/** Objects that a selection is applied to in one turn. */
export function sliceSizeOf({ requirements }: Selection): number {
  return Math.max(1, Math.min(sliceSize, Math.floor(sliceComparisons / Math.max(requirements, 1))));
}

/**
 * Calls `each` with slices of at most `size` items and about {@link sliceBytes}, in order, one slice per turn of the event loop.
 * `nextTurn` waits for the turn of the next slice. Default `setImmediate`.
 */
export async function forEachSlice<T extends { readonly bytes: Uint8Array }>(
  items: readonly T[],
  each: (slice: readonly T[]) => void | Promise<void>,
  {
    size = sliceSize,
    nextTurn = () => setImmediate(),
  }: { readonly size?: number; readonly nextTurn?: () => Promise<void> } = {},
): Promise<void> {
  for (let start = 0; start < items.length; ) {
    if (start > 0) await nextTurn();
    const end = endOfSlice(items, start, size);
    await each(items.slice(start, end));
    start = end;
  }
}

function endOfSlice(items: readonly { readonly bytes: Uint8Array }[], start: number, size: number): number {
  let bytes = 0;
  let end = start;
  while (end < items.length && end - start < size && bytes < sliceBytes) bytes += items[end++]?.bytes.length ?? 0;
  return end;
}
