import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemUser } from "../../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { sendRequest } from "../testing/send-request.ts";
import type { EncodedObject, ListOutcome } from "../outcome.ts";

const maps = "/api/v1/namespaces/default/configmaps";
const names = Array.from({ length: 700 }, (_, index) => `m${String(index).padStart(3, "0")}`);
const clock = createVirtualClock();
let environment: TestEnvironment;
beforeEach(async () => {
  environment = await startTestEnvironment({ clock });
  await Promise.all(names.map((name) => sendRequest(environment, "POST", maps, { metadata: { name, labels: { name } } })));
});
afterEach(() => environment.stop());

async function list(query: Record<string, string> = {}): Promise<ListOutcome> {
  const request = { method: "GET", path: maps, query, headers: {}, user: systemUser, acceptsSlices: true } as const;
  const outcome = await environment.handle(request);
  if (outcome.kind !== "list") throw new TypeError(`unexpected ${outcome.kind}`);
  return outcome;
}
const namesOf = (items: readonly EncodedObject[]): readonly string[] =>
  items.map(({ object }) => object.metadata.name ?? "").filter((name) => name.startsWith("m"));

it("reads a long list while it is sent, and keeps at most one slice in memory", async () => {
  const { items, remaining } = await list();
  expect(items.length).toBeLessThanOrEqual(250);
  expect(items.length + (remaining?.count ?? 0)).toBeGreaterThanOrEqual(names.length);
  const found = [...namesOf(items)];
  for await (const slice of remaining?.slices() ?? []) {
    expect(slice.length).toBeLessThanOrEqual(250);
    found.push(...namesOf(slice));
  }
  expect(found).toEqual(names);
});

it("ends a slice after the objects of one turn, however large they are", async () => {
  const text = "x".repeat(400_000);
  for (const name of ["a0", "a1", "a2", "a3"]) {
    await sendRequest(environment, "POST", maps, { metadata: { name }, data: { text } });
  }
  const { items, remaining } = await list();
  expect(items.map(({ object }) => object.metadata.name)).toEqual(["a0", "a1"]);
  for await (const slice of remaining?.slices() ?? []) {
    expect(slice.map(({ object }) => object.metadata.name)).toEqual(["a2", "a3"]);
    break;
  }
});

it("applies selectors with thousands of requirements to few objects in a turn", async () => {
  const labelSelector = Array.from({ length: 2_000 }, (_, index) => `!n${index}`).join(",");
  const { items, remaining } = await list({ labelSelector });
  expect(items.length).toBeLessThanOrEqual(12);
  const found = [...namesOf(items)];
  for await (const slice of remaining?.slices() ?? []) found.push(...namesOf(slice));
  expect(found).toEqual(names);
});

it("rejects selectors with more terms than one turn can parse", async () => {
  for (const [parameter, term] of [
    ["labelSelector", "a"],
    ["fieldSelector", "metadata.name!=a"],
  ] as const) {
    const { body } = await sendRequest(environment, "GET", `${maps}?${parameter}=${Array(2_001).fill(term).join(",")}`);
    expect(body).toMatchObject({
      code: 400,
      message: `${parameter}: must have at most 2000 requirements and values, got 2001`,
    });
  }
});

it("rejects a watch whose selectors have too many requirements", async () => {
  const labelSelector = Array.from({ length: 257 }, (_, index) => `n${index}`).join(",");
  const { body } = await sendRequest(environment, "GET", `${maps}?watch=1&labelSelector=${encodeURIComponent(labelSelector)}`);
  expect(body).toMatchObject({ code: 400, message: "the selectors of a watch must have at most 256 requirements, got 257" });
});

it("watches the objects of a selector with as many values as a list accepts", async () => {
  const values = Array.from({ length: 2_000 }, (_, index) => `n${index}`);
  const query = { watch: "1", labelSelector: `name in (${values.join(",")})` };
  const outcome = await environment.handle({ method: "GET", path: maps, query, headers: {}, user: systemUser });
  expect(outcome.kind).toBe("watch");
});

it("returns one state to a client that stops reading, despite changes made meanwhile", async () => {
  const { items, remaining } = await list();
  const found = [...namesOf(items)];
  const timers = clock.pendingTimers;
  for await (const slice of remaining?.slices() ?? []) {
    found.push(...namesOf(slice));
    await clock.advance(60_000);
    // The state is not held for a client that does not read.
    expect(clock.pendingTimers).toBe(timers);
    await sendRequest(environment, "DELETE", `${maps}/m690`);
    await sendRequest(environment, "POST", maps, { metadata: { name: `m600-${found.length}` } });
  }
  expect(found).toEqual(names);
  expect(clock.pendingTimers).toBe(timers);
});

it("copies the bytes that it reads, of one state, despite changes made meanwhile", async () => {
  const { remaining } = await list();
  const read: string[] = [];
  const copied: string[] = [];
  for await (const slice of remaining?.slices() ?? []) read.push(...slice.map(({ bytes }) => Buffer.from(bytes).toString()));
  await clock.advance(60_000);
  await sendRequest(environment, "DELETE", `${maps}/m690`);
  await sendRequest(environment, "POST", maps, { metadata: { name: "m600-later" } });
  for await (const _ of remaining?.copy?.((bytes) => copied.push(Buffer.from(bytes).toString())) ?? [])
    await clock.advance(60_000);
  expect(read.length).toBeGreaterThan(400);
  expect(copied).toEqual(read);
});

it("copies fewer objects in a turn if they are stored in another version", async () => {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  const version = (name: string, storage: boolean): object => ({ name, served: true, storage, schema });
  const crd = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "things.example.com" },
    spec: {
      group: "example.com",
      scope: "Namespaced",
      names: { plural: "things", kind: "Thing" },
      versions: [version("v1", true), version("v2", false)],
    },
  };
  await environment.install([crd]);
  const path = (name: string): string => `/apis/example.com/${name}/namespaces/default/things`;
  const create = (name: string): Promise<unknown> =>
    sendRequest(environment, "POST", path("v1"), { apiVersion: "example.com/v1", kind: "Thing", metadata: { name } });
  await Promise.all(names.map(create));
  const turns = async (name: string): Promise<readonly number[]> => {
    const request = { method: "GET", path: path(name), query: {}, headers: {}, user: systemUser, acceptsSlices: true } as const;
    const outcome = await environment.handle(request);
    const copied: number[] = [];
    let count = 0;
    const add = (bytes: Uint8Array): void => {
      expect(Buffer.from(bytes).toString()).toContain(`"apiVersion":"example.com/${name}"`);
      count += 1;
    };
    const copy = outcome.kind === "list" ? outcome.remaining?.copy : undefined;
    for await (const _ of copy?.(add) ?? []) {
      copied.push(count);
      count = 0;
    }
    return copied;
  };
  expect(await turns("v1")).toEqual([450]);
  expect(await turns("v2")).toEqual([250, 200]);
});

it("does not copy the bytes of objects that a selector has to read", async () => {
  const { remaining } = await list({ labelSelector: "!absent" });
  expect(remaining).toBeDefined();
  expect(remaining?.copy).toBeUndefined();
});

it("reads in slices if the limit has no effect, as with version 0", async () => {
  const { items, remaining } = await list({ limit: "500", resourceVersion: "0" });
  expect(items.length).toBeLessThanOrEqual(250);
  const found = [...namesOf(items)];
  for await (const slice of remaining?.slices() ?? []) found.push(...namesOf(slice));
  expect(found).toEqual(names);
});

it("stops reading if the client has disconnected", async () => {
  const signal = AbortSignal.abort(new Error("the client disconnected"));
  const request = { method: "GET", path: maps, query: {}, headers: {}, user: systemUser, signal } as const;
  const message = "Internal error occurred: the client disconnected";
  expect(await environment.handle(request)).toMatchObject({ kind: "status", status: { message } });
});

it("releases the state if the client disconnects", async () => {
  const timers = clock.pendingTimers;
  const { remaining } = await list();
  for await (const _ of remaining?.slices() ?? []) break;
  expect(clock.pendingTimers).toBe(timers);
});

it("applies selectors to every slice, and reads pages completely", async () => {
  const { items, remaining } = await list({ labelSelector: "name in (m001, m699)" });
  const found = [...namesOf(items)];
  for await (const slice of remaining?.slices() ?? []) found.push(...namesOf(slice));
  expect(found).toEqual(["m001", "m699"]);
  expect((await list({ limit: "500" })).items).toHaveLength(500);
});
