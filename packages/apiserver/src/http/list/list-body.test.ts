import { expect, it } from "vitest";
import type { EncodedObject, RemainingItems } from "../../endpoints/outcome.ts";
import { configMaps } from "../../testing/config-maps.ts";
import { joinItems, streamItems } from "./list-body.ts";

const head = '{"kind":"ConfigMapList"}';
const typeMeta = '{"apiVersion":"v1","kind":"ConfigMap",';

function itemsOf(sizes: readonly number[]): readonly EncodedObject[] {
  return sizes.map((size, index) => {
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `n-${index}` }, data: { text: "x".repeat(size) } };
    return { object, bytes: Buffer.from(JSON.stringify(object)) };
  });
}

/** Reads parts as a response does: each one is used before the next one is requested. */
async function textOf(
  parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<{ text: string; memory: Set<unknown> }> {
  let text = "";
  const memory = new Set<unknown>();
  for await (const part of parts) {
    text += Buffer.from(part).toString();
    memory.add(part.buffer);
  }
  return { text, memory };
}

const expected = (items: readonly EncodedObject[], itemSkip: number): string =>
  `{"kind":"ConfigMapList","items":[${items
    .map(({ bytes }) => (itemSkip === 0 ? "" : "{") + Buffer.from(bytes).toString("utf8", itemSkip))
    .join(",")}]}`;

it.each([0, typeMeta.length])("joins items of any size, with %d bytes of each left out", async (itemSkip) => {
  for (const sizes of [[], [1], [300_000], [1, 300_000, 1], [100_000, 100_000, 100_000, 262_144, 5]]) {
    const items = itemsOf(sizes);
    const body = joinItems(head, items, itemSkip);
    const { text } = await textOf(body.parts());
    expect(text).toBe(expected(items, itemSkip));
    expect(Buffer.byteLength(text)).toBe(body.bytes);
  }
});

it("sends the items that are read meanwhile, and uses the memory of a sent part again", async () => {
  const [first, ...rest] = itemsOf(Array.from({ length: 200 }, () => 20_000));
  const slices = [rest.slice(0, 60), [], rest.slice(60, 120), rest.slice(120)];
  const outcome = {
    kind: "list",
    items: first === undefined ? [] : [first],
    listMeta: {},
    resource: configMaps,
    itemSkip: 0,
  } as const;
  const read: RemainingItems = {
    count: rest.length,
    async *slices() {
      yield* slices;
    },
  };
  const copied: RemainingItems = {
    ...read,
    async *copy(add) {
      for (const slice of slices) {
        for (const { bytes } of slice) {
          const lent = Buffer.from(bytes);
          add(lent);
          lent.fill(0);
        }
        yield;
      }
    },
  };
  for (const remaining of [read, copied]) {
    const { text, memory } = await textOf(streamItems(head, outcome, remaining).parts());
    expect(text).toBe(expected(first === undefined ? [] : [first, ...rest], 0));
    // 16 parts, the head and the end.
    expect(memory.size).toBeLessThan(12);
  }
});
