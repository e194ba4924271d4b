import { expect, test } from "vitest";
import type { KubernetesObject } from "../objects/object.ts";
import type { Schema } from "../schema/schema.ts";
import { mergeConfiguration } from "./merge-configuration.ts";

const text: Schema = { type: "string" };
const schema: Schema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        items: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["name"],
          items: { type: "object", properties: { name: text, value: text, args: { type: "array", items: text } } },
        },
        selector: { type: "object", "x-kubernetes-map-type": "atomic", properties: { key: text } },
      },
    },
  },
};

const object = (spec: object, metadata: object = {}): KubernetesObject =>
  ({ apiVersion: "example.com/v1", kind: "Example", metadata, spec }) as unknown as KubernetesObject;

test("merges maps by field and lists by key, and removes nothing", () => {
  const live = object({ items: [{ name: "a", value: "1" }, { name: "b" }], selector: { key: "x" } }, { labels: { a: "1" } });
  const config = object({ items: [{ name: "b", value: "2" }, { name: "c" }] }, { labels: { b: "2" } });
  expect(mergeConfiguration(live, config, schema)).toEqual({
    kind: "merged",
    object: object(
      { items: [{ name: "a", value: "1" }, { name: "b", value: "2" }, { name: "c" }], selector: { key: "x" } },
      { labels: { a: "1", b: "2" } },
    ),
  });
});

test("rejects atomic values and fields that the schema does not have", () => {
  const config = object({ items: [{ name: "a", args: ["x"] }], selector: { key: "y" } });
  expect(mergeConfiguration(object({}), config, schema)).toEqual({
    kind: "rejected",
    message: "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.items[0].args, .spec.selector",
  });
  expect(mergeConfiguration(object({}), object({ other: 1 }), schema)).toEqual({
    kind: "rejected",
    message: "failed to convert patch object to typed object: .spec.other: field not declared in schema",
  });
});
