import { ConfigMap } from "@keelson/api-machinery/kinds";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import type { Transport } from "@keelson/api-machinery/transport";
import { createClient } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";

const clock = createVirtualClock();
const path = "/api/v1/namespaces/default/configmaps";
let environment: TestEnvironment;
let transport: Transport;
beforeEach(async () => {
  environment = await startTestEnvironment({ clock });
  transport = environment.transport();
});
afterEach(() => environment.stop());

const client = () => createClient({ transport, fieldManager: "tester" });
const create = (name: string) => client().create(ConfigMap, { metadata: { namespace: "default", name } });
const ahead = (by: number): string => String(environment.store.revision + by);
const read = (at: string, query: Record<string, string>) =>
  transport.request({ method: "GET", path: at, query }).then(({ status, body }) => ({ status, body }));
const tooLarge = (version: string, details: object = {}) => ({
  status: 504,
  body: {
    reason: "Timeout",
    message: `Timeout: Too large resource version: ${version}, current: ${environment.store.revision}`,
    details: { ...details, causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }] },
  },
});

describe("a future revision", () => {
  it.each([
    ["get", `${path}/a`, {}],
    ["list", path, {}],
    ["list not older than it", path, { resourceVersionMatch: "NotOlderThan" }],
  ])("is waited for by a %s", async (_, at, query) => {
    await create("a");
    const answer = read(at, { ...query, resourceVersion: ahead(2) });
    await create("b");
    await clock.advance(2_999);
    await create("c");
    expect((await answer).status).toBe(200);
    expect(clock.pendingTimers).toBe(0);
  });

  it("is awaited for three seconds, then the response says when to retry", async () => {
    const version = ahead(1);
    const answer = read(path, { resourceVersion: version });
    await expect.poll(() => clock.pendingTimers).toBe(1);
    await clock.advance(3_000);
    expect(await answer).toMatchObject(tooLarge(version, { retryAfterSeconds: 1 }));
  });

  it("is not awaited for an exact match, or once the client has disconnected", async () => {
    const version = ahead(1);
    expect(await read(path, { resourceVersion: version, resourceVersionMatch: "Exact" })).toMatchObject(tooLarge(version));
    const gone = new AbortController();
    const answer = transport.request({ method: "GET", path, query: { resourceVersion: version }, signal: gone.signal });
    const refused = expect(answer).rejects.toThrow("it has gone");
    gone.abort(new Error("it has gone"));
    await refused;
    expect(clock.pendingTimers).toBe(0);
  });

  it("lets a watch wait for later changes", async () => {
    const watch = await transport.watch({ method: "GET", path, query: { resourceVersion: ahead(1) } });
    await create("a");
    await create("b");
    const { value } = await watch[Symbol.asyncIterator]().next();
    expect(value).toMatchObject({ type: "ADDED", object: { metadata: { name: "b" } } });
    watch.close();
  });

  it("lets a watch wait for its initial state, and reports a timeout in the stream", async () => {
    const query = { sendInitialEvents: "true", resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: "true" };
    const watch = await transport.watch({ method: "GET", path, query: { ...query, resourceVersion: ahead(1) } });
    const events = watch[Symbol.asyncIterator]();
    const first = events.next();
    await create("a");
    expect((await first).value).toMatchObject({ type: "ADDED", object: { metadata: { name: "a" } } });
    expect((await events.next()).value).toMatchObject({ type: "BOOKMARK" });
    watch.close();

    const version = ahead(1);
    const late = await transport.watch({ method: "GET", path, query: { ...query, resourceVersion: version } });
    const told = late[Symbol.asyncIterator]();
    const error = told.next();
    await clock.advance(3_000);
    expect((await error).value).toMatchObject({ type: "ERROR", object: tooLarge(version).body });
    expect((await told.next()).done).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });
});

it("is not sent in a bookmark before it is reached", async () => {
  const query = { resourceVersion: ahead(2), allowWatchBookmarks: "true" };
  const watch = await transport.watch({ method: "GET", path: "/api/v1/secrets", query });
  await create("a");
  await clock.advance(60_000);
  await create("b");
  const { revision } = environment.store;
  const next = watch[Symbol.asyncIterator]().next();
  await clock.advance(60_000);
  expect((await next).value).toMatchObject({ type: "BOOKMARK", object: { metadata: { resourceVersion: String(revision) } } });
  watch.close();
});
