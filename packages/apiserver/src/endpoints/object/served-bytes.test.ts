import { expect, it } from "vitest";
import { configMaps } from "../../testing/config-maps.ts";
import { servedBytes, servesStoredBytes } from "./serve-object.ts";

const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true } as const;
const call = { resource: { ...configMaps, schema }, resources: { get: () => undefined } as never };
const bytesOf = (apiVersion: string): Buffer =>
  Buffer.from(JSON.stringify({ apiVersion, kind: "ConfigMap", metadata: { resourceVersion: "7", name: "a" } }));

it("serves the stored bytes of the served version", () => {
  const bytes = bytesOf("v1");
  expect(servedBytes(call, "/configmaps/default/a", 7, bytes)).toBe(bytes);
});

it("converts an object that is stored in another version, and keeps nothing of the bytes that it was lent", () => {
  const lent = bytesOf("v10");
  const served = servedBytes(call, "/configmaps/default/a", 7, lent);
  lent.fill(0);
  expect(JSON.parse(Buffer.from(served).toString())).toMatchObject({ apiVersion: "v1", metadata: { name: "a" } });
});

it("does not serve the bytes of a resource that is converted", () => {
  expect(servesStoredBytes(configMaps)).toBe(true);
  const conversion = { toStorage: (object: never) => object, fromStorage: (object: never) => object } as never;
  expect(servesStoredBytes({ ...configMaps, conversion })).toBe(false);
});
