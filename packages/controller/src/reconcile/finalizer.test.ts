import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterEach, beforeEach, expect, test } from "vitest";
import { addFinalizer, removeFinalizer } from "./finalizer.ts";
import { configMapType } from "../testing/kinds.ts";

let environment: TestEnvironment;
let client: Client;
const key = { namespace: "default", name: "c" };

beforeEach(async () => {
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterEach(() => environment.stop());

test("adds and removes a finalizer once, and keeps those of others", async () => {
  const bare = await client.create(configMapType, { metadata: key });
  expect(await addFinalizer(client, configMapType, bare, "example.org/one")).toBe(true);
  const one = await client.get(configMapType, key);
  expect(await addFinalizer(client, configMapType, one, "example.org/one")).toBe(false);
  expect(await addFinalizer(client, configMapType, one, "example.org/two")).toBe(true);
  const both = await client.get(configMapType, key);
  expect(both.metadata.finalizers).toEqual(["example.org/one", "example.org/two"]);
  expect(await removeFinalizer(client, configMapType, both, "example.org/one")).toBe(true);
  const two = await client.get(configMapType, key);
  expect(two.metadata.finalizers).toEqual(["example.org/two"]);
  expect(await removeFinalizer(client, configMapType, two, "example.org/one")).toBe(false);
});

test("rejects a concurrent change of the finalizers", async () => {
  const bare = await client.create(configMapType, { metadata: key });
  await addFinalizer(client, configMapType, bare, "example.org/other");
  await expect(addFinalizer(client, configMapType, bare, "example.org/mine")).rejects.toMatchObject({ code: 422 });
  const one = await client.get(configMapType, key);
  await addFinalizer(client, configMapType, one, "example.org/more");
  await expect(removeFinalizer(client, configMapType, one, "example.org/other")).rejects.toMatchObject({ code: 422 });
  expect((await client.get(configMapType, key)).metadata.finalizers).toEqual(["example.org/other", "example.org/more"]);
});

test("adds no finalizer to an object that is being deleted", async () => {
  const bare = await client.create(configMapType, { metadata: { ...key, finalizers: ["example.org/other"] } });
  await client.delete(configMapType, key);
  const dying = await client.get(configMapType, key);
  expect(dying.metadata.deletionTimestamp).toBeDefined();
  expect(await addFinalizer(client, configMapType, dying, "example.org/mine")).toBe(false);
  expect(bare.metadata.deletionTimestamp).toBeUndefined();
});
