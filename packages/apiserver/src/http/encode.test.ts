import type { KubernetesObject } from "@keelson/api-machinery";
import { expect, it } from "vitest";
import type { EncodedObject } from "../endpoints/outcome.ts";
import { configMaps } from "../testing/config-maps.ts";
import { type EncodedBody, encodeList } from "./encode.ts";

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
      } as const;
      const outcome = { kind: "list", items, listMeta, resource: configMaps, itemSkip: 0 } as const;
      const body = await encodeList(outcome, { ...plain, as }, context);
      const bytes = await bytesOf(body);
      expect(bytes.length).toBe(body.bytes);
      const pretty = await encodeList(outcome, { ...plain, as, pretty: true }, context);
      expect(JSON.parse(bytes.toString())).toEqual(JSON.parse((await bytesOf(pretty)).toString()));
      // The last list, the indented one, is made in one turn.
      await new Promise((resolve) => setImmediate(resolve));
      expect(Math.max(0, ...slices.slice(0, -1))).toBeLessThanOrEqual(100);
      if (count > 1_000) expect(slices.length).toBeGreaterThan(10);
    }
  },
);
