import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { systemUser } from "../../server.ts";
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
