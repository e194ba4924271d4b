import type { ResourceType } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { createClient } from "@keelson/client";
import { beforeEach, expect, test } from "vitest";
import { silentLogger } from "../logging/logger.ts";
import { SharedCache } from "../cache/shared-cache.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";

let server: FakeApiServer;
let clock: VirtualClock;
let cache: SharedCache;
let kinds: readonly ResourceType[];
/** Lists that wait for {@link answer}, in the order of the requests. */
let asked: { readonly plural: string; readonly answer: (status?: number) => void }[];
let running: number;
let most: number;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  asked = [];
  running = 0;
  most = 0;
  server.intercept = (request, isWatch) => {
    if (isWatch) return undefined;
    most = Math.max(most, ++running);
    return new Promise((resolve, reject) => {
      const answer = (status?: number): void => {
        running--;
        resolve(status === undefined ? undefined : { status, headers: {}, body: "" });
      };
      request.signal?.addEventListener("abort", () => reject(request.signal?.reason));
      asked.push({ plural: request.path.split("/").at(-1) ?? "", answer });
    });
  };
  const client = createClient({ transport: server, fieldManager: "test", clock });
  cache = new SharedCache({ client, clock, random: () => 0, log: silentLogger });
  kinds = Array.from({ length: 20 }, (_, index) => {
    return { group: "example.org", version: "v1", kind: `Kind${index}`, plural: `kind${index}s`, scope: "Namespaced" };
  });
  for (const kind of kinds) cache.declare(kind);
});

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await clock.advance(0);
};

test("requests eight lists at the same time and the others in order, and is synced when all have arrived", async () => {
  const started = cache.start(120_000);
  for (let index = 0; index < kinds.length; index++) {
    await settle();
    expect(asked.length).toBe(Math.min(8 + index, kinds.length));
    asked[index]?.answer();
  }
  await started;
  expect(asked.map(({ plural }) => plural)).toEqual(kinds.map(({ plural }) => plural));
  expect(most).toBe(8);
  await cache.stop();
  expect(clock.pendingTimers).toBe(0);
});

test("a failed list that waits for its retry does not block others", async () => {
  const started = cache.start(120_000);
  await settle();
  for (let index = 0; index < 8; index++) asked[index]?.answer(404);
  await settle();
  expect(asked.slice(8).map(({ plural }) => plural)).toEqual(kinds.slice(8, 16).map(({ plural }) => plural));
  for (let index = 8; index < 28; index++) {
    await clock.advance(800);
    asked[index]?.answer();
  }
  await settle();
  await started;
  await cache.stop();
});

test("lists without a response delay others for at most ten seconds", async () => {
  const started = cache.start(120_000);
  started.catch(() => {});
  await clock.advance(9_999);
  expect(asked.length).toBe(8);
  await clock.advance(1);
  await settle();
  expect(asked.length).toBe(16);
  await cache.stop();
  await expect(started).rejects.toThrow("stopped before it was synced");
  expect(clock.pendingTimers).toBe(0);
});
