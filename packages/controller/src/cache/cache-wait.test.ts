import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient } from "@keelson/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cacheOf, type CacheOptions } from "./cache-options.ts";
import { silentLogger } from "../logging/logger.ts";
import { metadataOf } from "./metadata-only.ts";
import { SharedCache } from "./shared-cache.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { configMapType, robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;
let cache: SharedCache;

const key = { namespace: "a", name: "r" };
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await clock.advance(0);
};

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
});
afterEach(async () => {
  await cache.stop();
  expect(clock.pendingTimers).toBe(0);
});

async function start(cached: CacheOptions = {}): Promise<void> {
  cache = new SharedCache({ client, clock, random: () => 0, log: silentLogger, cached });
  cache.declare(robotType);
  await cache.start(120_000);
  await settle();
}

/** How a wait stands. */
function watched(wait: Promise<void>): { state: string } {
  const seen = { state: "waits" };
  wait.then(
    () => (seen.state = "over"),
    (error: Error) => (seen.state = error.message),
  );
  return seen;
}

test("a wait resolves when the cache shows the write or a later one", async () => {
  await start();
  server.pause();
  const created = await client.create(robotType, { metadata: key });
  const wait = watched(cache.whenSeen(robotType, created));
  await settle();
  expect([wait.state, cache.get(robotType, key)]).toEqual(["waits", undefined]);
  server.resume();
  await settle();
  expect([wait.state, cache.get(robotType, key)?.metadata.uid]).toEqual(["over", created.metadata.uid]);
  await client.patch(robotType, key, { type: "merge", body: { spec: { size: 2 } } });
  await settle();
  await cache.whenSeen(robotType, created);
});

test("a wait fails after 5 s, or its timeout, and says what the cache has", async () => {
  await start();
  const created = await client.create(robotType, { metadata: key });
  await settle();
  server.pause();
  const patched = await client.patch(robotType, key, { type: "merge", body: { spec: { size: 2 } } });
  const wait = watched(cache.whenSeen(robotType, patched));
  const brief = cache.whenSeen(robotType, patched, { timeoutMs: 100 });
  brief.catch(() => {});
  await clock.advance(4_999);
  expect(wait.state).toBe("waits");
  await expect(brief).rejects.toMatchObject({ code: "CacheTimeout" });
  await clock.advance(1);
  const [before, after] = [created.metadata.resourceVersion, patched.metadata.resourceVersion];
  expect(wait.state).toBe(
    `timed out after 5 s: the cache does not show robots.v1.example.org a/r at version ${after}: it has version ${before} of the object and ${before} of the kind`,
  );
});

test("a deletion is visible when the object of this uid is deleted, even if the cache had not shown it yet", async () => {
  await start();
  server.pause();
  const created = await client.create(robotType, { metadata: key });
  await client.delete(robotType, key);
  const wait = watched(cache.whenDeleted(robotType, created));
  await settle();
  expect(wait.state).toBe("waits");
  server.resume();
  await settle();
  expect(wait.state).toBe("over");
  const recreated = await client.create(robotType, { metadata: key });
  await cache.whenSeen(robotType, recreated);
  await cache.whenDeleted(robotType, created);
  const missing = watched(cache.whenDeleted(robotType, recreated));
  await clock.advance(5_000);
  expect(missing.state).toContain(`(uid ${recreated.metadata.uid}): it has version ${recreated.metadata.resourceVersion}`);
});

test("a wait rejects with the reason of its signal, or when the cache stops", async () => {
  await start();
  server.pause();
  const created = await client.create(robotType, { metadata: key });
  const controller = new AbortController();
  const wait = watched(cache.whenSeen(robotType, created, { signal: controller.signal }));
  const other = watched(cache.whenDeleted(robotType, created));
  controller.abort(new Error("enough"));
  await settle();
  expect([wait.state, other.state]).toEqual(["enough", "waits"]);
  const late = watched(cache.whenSeen(robotType, created, { signal: controller.signal }));
  await cache.stop();
  await settle();
  expect(other.state).toMatch(/^the cache was stopped: .*robots\.v1\.example\.org a\/r/);
  expect(late.state).toBe("enough");
  await expect(cache.whenSeen(robotType, created)).rejects.toThrow("the cache was stopped");
});

test("resolves immediately for objects that are not selected, and rejects kinds that are not cached", async () => {
  await start({ byObject: [cacheOf(robotType, { labelSelector: "kept=yes" })] });
  server.pause();
  await cache.whenSeen(robotType, await client.create(robotType, { metadata: key }));
  const robot = await client.create(robotType, { metadata: { ...key, name: "other" } });
  await expect(cache.whenSeen(robotType, { ...robot, metadata: key })).rejects.toThrow("no metadata.resourceVersion");
  const map = await client.create(configMapType, { metadata: key });
  await expect(cache.whenSeen(configMapType, map)).rejects.toThrow("ConfigMap (configmaps.v1.) is not cached");
  await expect(cache.whenDeleted(metadataOf(robotType), map)).rejects.toThrow("(metadata)) is not cached");
});

test("a change checks only the waits for its own object", async () => {
  await start();
  const count = 200;
  const created = [];
  for (let index = 0; index < count; index++) {
    created.push(await client.create(robotType, { metadata: { namespace: "a", name: `r${index}` } }));
  }
  await settle();
  server.pause();
  for (const { metadata } of created) await client.delete(robotType, { namespace: "a", name: metadata.name ?? "" });
  const waits = Promise.all(created.map((object) => cache.whenDeleted(robotType, object)));
  await settle();
  const store = cache.find(robotType)?.store;
  if (store === undefined) throw new Error("robots are not cached");
  const look = vi.spyOn(store, "get");
  server.resume();
  await settle();
  await waits;
  expect(look.mock.calls.length).toBeLessThanOrEqual(3 * count);
});
