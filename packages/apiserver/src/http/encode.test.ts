import type { KubernetesObject } from "@keelson/api-machinery";
import { expect, it } from "vitest";
import type { EncodedObject } from "../endpoints/outcome.ts";
import { configMaps } from "../testing/config-maps.ts";
import { type EncodedBody, encodeList, encodeValue } from "./encode.ts";
import { ProtobufEncoder } from "./protobuf/encode.ts";

function objects(count: number): EncodedObject[] {
  return Array.from({ length: count }, (_, index) => {
    const object: KubernetesObject = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `n-${index}` } };
    return { object, bytes: Buffer.from(JSON.stringify(object)) };
  });
}

async function bytesOf(body: EncodedBody): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of body.parts()) parts.push(part);
  return Buffer.concat(parts);
}

const plain = { format: "json", version: "v1", pretty: false } as const;
const listMeta = { resourceVersion: "7" };

it.each(["Table", "PartialObjectMetadataList"] as const)(
  "converts a long list to a %s a slice in each turn, and what comes is what one turn would have made",
  async (as) => {
    for (const count of [0, 1, 100, 1_050]) {
      const items = objects(count);
      const slices: number[] = [];
      let inThisTurn = 0;
      const look = (): void => {
        if (inThisTurn++ === 0) {
          setImmediate(() => {
            slices.push(inThisTurn);
            inThisTurn = 0;
          });
        }
      };
      for (const item of items) {
        const { object } = item;
        Object.defineProperty(item, "object", {
          get: () => {
            look();
            return object;
          },
        });
      }
      const context = {
        toTable: (_: unknown, listed: readonly unknown[]) => ({
          columnDefinitions: ["c"],
          rows: listed.map((object) => ({ object })),
        }),
        includeObject: "None",
        now: 0,
        protobuf: new ProtobufEncoder(),
      } as const;
      const outcome = { kind: "list", items, listMeta, resource: configMaps, itemSkip: 0 } as const;
      const body = await encodeList(outcome, { ...plain, as }, context);
      const bytes = await bytesOf(body);
      expect(bytes.length).toBe(body.bytes);
      await new Promise((resolve) => setImmediate(resolve));
      const pretty = await encodeList(outcome, { ...plain, as, pretty: true }, context);
      expect((await bytesOf(pretty)).toString()).toBe(`${JSON.stringify(JSON.parse(bytes.toString()), undefined, 2)}\n`);
      await new Promise((resolve) => setImmediate(resolve));
      expect(Math.max(0, ...slices)).toBeLessThanOrEqual(100);
      if (count > 1_000) expect(slices.length).toBeGreaterThan(10);
    }
  },
);

it.each(["yaml", "json"] as const)("encodes a long list of objects in indented %s a slice in each turn", async (format) => {
  const items = objects(1_050);
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  const outcome = { kind: "list", items, listMeta, resource: configMaps, itemSkip: 0 } as const;
  const context = {
    toTable: () => ({ columnDefinitions: [], rows: [] }),
    includeObject: "None",
    now: 0,
    protobuf: new ProtobufEncoder(),
  } as const;
  const compact = (await bytesOf(await encodeList(outcome, { ...plain, as: undefined }, context))).toString();
  setImmediate(count);
  const body = await encodeList(outcome, { format, as: undefined, version: "v1", pretty: true }, context);
  isDone = true;
  const text = (await bytesOf(body)).toString();
  // JSON is YAML in flow style.
  expect(text).toBe(format === "yaml" ? compact : `${JSON.stringify(JSON.parse(compact), undefined, 2)}\n`);
  if (format === "json") expect(turns).toBeGreaterThanOrEqual(10);
});

it("writes short YAML in block style and long YAML in flow style", async () => {
  const style = { format: "yaml", pretty: false } as const;
  const textOf = async (value: unknown): Promise<string> => (await bytesOf(await encodeValue(value, style))).toString();
  expect(await textOf({ b: "2026-01-01T00:00:00Z", a: ["b", "yes", ""] })).toBe(
    'a:\n- b\n- "yes"\n- ""\nb: "2026-01-01T00:00:00Z"\n',
  );
  const long = { a: "x".repeat(33 * 1024) };
  expect(await textOf(long)).toBe(JSON.stringify(long));
});
