import { expect, test } from "vitest";
import { configMaps } from "../../testing/config-maps.ts";
import { forEachSlice, sliceBytes, sliceSize, sliceSizeOf } from "./slices.ts";
import { selectionOf } from "./selection.ts";

const ofBytes = (count: number, bytes: number): { readonly bytes: Uint8Array }[] =>
  Array.from({ length: count }, () => ({ bytes: new Uint8Array(bytes) }));

async function sizesOf(items: readonly { readonly bytes: Uint8Array }[], size?: number): Promise<number[]> {
  const sizes: number[] = [];
  await forEachSlice(items, (slice) => void sizes.push(slice.length), { size });
  return sizes;
}

test("slices end with the item that reaches the size of a turn, or after the maximum number of items", async () => {
  expect(await sizesOf([])).toEqual([]);
  expect(await sizesOf(ofBytes(5, 10), 2)).toEqual([2, 2, 1]);
  expect(await sizesOf(ofBytes(3, sliceBytes))).toEqual([1, 1, 1]);
  expect(await sizesOf(ofBytes(5, sliceBytes / 2))).toEqual([2, 2, 1]);
});

test("a selector with many requirements is applied to fewer objects in a turn", () => {
  const sizeFor = (labelSelector: string): number => sliceSizeOf(selectionOf(configMaps, { labelSelector }));
  const names = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
  expect(sizeFor("")).toBe(sliceSize);
  expect(sizeFor("app=web")).toBe(sliceSize);
  expect(sizeFor(names.join(","))).toBe(10);
  expect(sizeFor(`app in (${names.join(",")})`)).toBe(sliceSize);
});
