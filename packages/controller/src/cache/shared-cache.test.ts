import { statusError } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient, TransportError } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cacheOf, type CacheOptions } from "./cache-options.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import type { CacheListOptions } from "./cache.ts";
import { SharedCache } from "./shared-cache.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { type Robot, robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;
let cache: SharedCache;
let changes: string[];
let errors: string[];

const log: Logger = {
  ...silentLogger,
  error: (fields, message) => errors.push(`${message}: ${String(fields["err"])}`),
  child: () => log,
};

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
  changes = [];
  errors = [];
  cache = make();
});
afterEach(async () => {
  await cache.stop();
  if (clock.pendingTimers !== 0 || server.openWatches !== 0) throw new Error("the cache left timers or watches behind");
});

function make(cached: CacheOptions = {}): SharedCache {
  return new SharedCache({ client, clock, random: () => 0, log, cached });
}

const robot = (name: string, more: Partial<Robot> = {}, namespace = "a") => ({ metadata: { namespace, name }, ...more });
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await clock.advance(0);
};

async function start(): Promise<void> {
  cache.declare(robotType).addHandler((change, { initial }) => {
    const { name, uid } = change.object.metadata;
    changes.push(
      `${change.type} ${name} ${uid}${change.old === undefined ? "" : ` was ${change.old.metadata.uid}`}${initial ? " initially" : ""}`,
    );
  });
  await cache.start(120_000);
  await settle();
}

describe("cache", () => {
  test("holds frozen objects with their kind and without managedFields", async () => {
    await client.create(robotType, {
      ...robot("r"),
      metadata: { namespace: "a", name: "r", managedFields: [{ manager: "m" }] },
    });
    await start();
    const object = cache.get(robotType, { namespace: "a", name: "r" });
    expect(object).toMatchObject({ apiVersion: "example.org/v1", kind: "Robot" });
    expect(object?.metadata).not.toHaveProperty("managedFields");
    expect(Object.isFrozen(object?.metadata)).toBe(true);
  });

  test("lists page by page", async () => {
    server.pageSize = 2;
    for (const name of ["a", "b", "c", "d", "e"]) await client.create(robotType, robot(name));
    await start();
    expect(cache.list(robotType).map((each) => each.metadata.name)).toEqual(["a", "b", "c", "d", "e"]);
    const lists = server.requests.filter((request) => request.method === "GET" && request.query?.["limit"] !== undefined);
    expect(lists.map((request) => request.query?.["continue"])).toEqual([undefined, "1", "2"]);
    expect(lists[0]?.query?.["limit"]).toBe("500");
  });

  test("selects by namespace, labels and index, and rejects unknown kinds and indexes", async () => {
    cache.declareIndex(robotType, "byModel", (object) => [(object as Robot).spec?.model ?? ""]);
    await start();
    await client.create(robotType, {
      ...robot("x", { spec: { model: "m1" } }),
      metadata: { namespace: "a", name: "x", labels: { l: "1" } },
    });
    await client.create(robotType, robot("y", { spec: { model: "m1" } }, "b"));
    await client.create(robotType, robot("z", { spec: { model: "m2" } }, "b"));
    await settle();
    const names = (options: Parameters<typeof cache.list>[1]): unknown[] =>
      cache.list(robotType, options).map((each) => each.metadata.name);
    expect(names({ namespace: "b" })).toEqual(["y", "z"]);
    expect(names({ labelSelector: "l in (1,2)" })).toEqual(["x"]);
    expect(names({ labelSelector: "l!=1", namespace: "b" })).toEqual(["y", "z"]);
    expect(names({ index: ["byModel", "m1"] })).toEqual(["x", "y"]);
    expect(names({ index: ["byModel", "m1"], namespace: "b" })).toEqual(["y"]);
    await client.patch(robotType, { namespace: "a", name: "x" }, { type: "merge", body: { spec: { model: "m3" } } });
    await settle();
    expect(names({ index: ["byModel", "m1"] })).toEqual(["y"]);
    expect(() => names({ index: ["byNone", "m1"] })).toThrow(/no index "byNone".*byModel/);
    expect(() => cache.get({ ...robotType, kind: "Other", plural: "others" }, { name: "x" })).toThrow(/Other .* is not cached/);
  });

  test("lists no more than the limit with any selection", async () => {
    for (const name of ["r1", "r2", "r3"]) await client.create(robotType, robot(name, { spec: { model: "m" } }));
    await client.create(robotType, robot("other", {}, "b"));
    cache.declareIndex(robotType, "byModel", (object) => [(object as Robot).spec?.model ?? ""]);
    await start();
    const count = (options: CacheListOptions): number => cache.list(robotType, options).length;
    expect([count({ limit: 2 }), count({ limit: 0 }), count({ limit: 9 })]).toEqual([2, 4, 4]);
    expect(count({ limit: 2, index: ["byModel", "m"] })).toBe(2);
    expect(count({ limit: 2, namespace: "b" })).toBe(1);
    expect(count({ limit: 3, labelSelector: "!no" })).toBe(3);
  });

  test("an index function that throws only excludes the object from the index", async () => {
    cache.declareIndex(robotType, "bad", () => {
      throw new Error("no index for you");
    });
    await client.create(robotType, robot("r"));
    await start();
    expect(cache.list(robotType).length).toBe(1);
    expect(cache.list(robotType, { index: ["bad", "x"] })).toEqual([]);
    expect(errors).toEqual(["index function failed; not indexing the object: Error: no index for you"]);
  });

  test("a handler that throws stops neither the others nor the informer", async () => {
    cache.declare(robotType).addHandler(() => {
      throw new Error("bad handler");
    });
    await start();
    await client.create(robotType, robot("r"));
    await client.create(robotType, robot("s"));
    await settle();
    expect(changes).toEqual(["create r uid-1", "create s uid-2"]);
    expect(errors.length).toBe(2);
  });

  test("caches the object unchanged if a transform throws or removes its identity", async () => {
    cache = make({
      byObject: [
        cacheOf(robotType, {
          transform: (object) => {
            if (object.metadata.name === "thrown") throw new Error("no transform for you");
            if (object.metadata.name === "nameless") return { ...object, metadata: {} };
            return { ...object, spec: { size: 1 } };
          },
        }),
      ],
    });
    for (const name of ["listed", "thrown"]) await client.create(robotType, robot(name, { spec: { size: 7 } }));
    await start();
    for (const name of ["watched", "nameless"]) await client.create(robotType, robot(name, { spec: { size: 7 } }));
    await settle();
    const sizes = cache.list(robotType).map((each) => [each.metadata.name, each.spec?.size]);
    expect(sizes).toEqual([
      ["listed", 1],
      ["thrown", 7],
      ["watched", 1],
      ["nameless", 7],
    ]);
    const said = "transform failed; caching the object unchanged";
    expect(errors).toEqual([
      `${said}: Error: no transform for you`,
      `${said}: TypeError: a transform must keep metadata.name, namespace, uid and resourceVersion`,
    ]);
  });

  describe("with an initial stream", () => {
    const watchesOf = (streams: boolean) =>
      server.requests.filter(({ query }) => query?.["watch"] === "true" && (query["sendInitialEvents"] === "true") === streams);
    const lists = () => server.requests.filter(({ method, query }) => method === "GET" && query?.["watch"] === undefined);

    beforeEach(async () => {
      cache = make({ initialList: "stream" });
      for (const name of ["r", "s"]) await client.create(robotType, robot(name));
      server.requests.length = 0;
    });

    test("receives existing objects and changes from one watch, without a list", async () => {
      server.streams = true;
      await start();
      await client.create(robotType, robot("t"));
      await settle();
      expect(changes).toEqual(["create r uid-1 initially", "create s uid-2 initially", "create t uid-3"]);
      expect(watchesOf(true).map(({ query }) => query)).toMatchObject([
        { resourceVersionMatch: "NotOlderThan", allowWatchBookmarks: "true" },
      ]);
      expect(watchesOf(true)[0]?.query?.["resourceVersion"]).toBeUndefined();
      expect([watchesOf(false).length, lists().length]).toEqual([0, 0]);
    });

    test("resumes as a watch, and streams again from its version after a compaction", async () => {
      server.streams = true;
      await start();
      server.bookmark();
      await clock.advance(5_000);
      server.endWatches();
      await settle();
      expect(watchesOf(false).map(({ query }) => query?.["resourceVersion"])).toEqual(["102"]);
      server.endWatches(new Error("cut"));
      await client.delete(robotType, { namespace: "a", name: "r" });
      server.compact();
      await clock.advance(30_000);
      await settle();
      expect(changes.at(-1)).toBe("delete r uid-1 was uid-1");
      expect(watchesOf(true).map(({ query }) => query?.["resourceVersion"])).toEqual([undefined, "102"]);
      expect(lists().length).toBe(0);
    });

    test("lists if the server rejects the stream, and does not try again", async () => {
      await start();
      server.send({ type: "ERROR", object: statusError("Expired", "").status });
      await settle();
      expect(changes).toEqual(["create r uid-1 initially", "create s uid-2 initially"]);
      expect([watchesOf(true).length, lists().length]).toEqual([1, 2]);
    });

    test("lists if the server ignores sendInitialEvents and sends nothing for 10 s", async () => {
      server.streams = "unmarked";
      const starting = start();
      await clock.advance(9_999);
      expect([watchesOf(true).length, lists().length, cache.list(robotType).length]).toEqual([1, 0, 0]);
      server.bookmark();
      await clock.advance(9_999);
      expect(lists().length).toBe(0);
      await clock.advance(1);
      await starting;
      expect(changes).toEqual(["create r uid-1 initially", "create s uid-2 initially"]);
      server.send({ type: "ERROR", object: statusError("Expired", "").status });
      await settle();
      expect([watchesOf(true).length, lists().length]).toEqual([1, 2]);
    });
  });

  test("resumes from the last event or bookmark after the server ends the watch", async () => {
    await start();
    await client.create(robotType, robot("r"));
    await settle();
    server.bookmark();
    await clock.advance(5_000);
    server.endWatches();
    await settle();
    const watches = server.requests.filter((request) => request.query?.["watch"] === "true");
    expect(watches.map((request) => request.query?.["resourceVersion"])).toEqual(["100", server.version]);
    expect(watches[0]?.query).toMatchObject({ allowWatchBookmarks: "true", timeoutSeconds: "300" });
    await client.create(robotType, robot("s"));
    await settle();
    expect(changes).toEqual(["create r uid-1", "create s uid-2"]);
  });

  test("delivers missed deletions, and a recreated object as delete and create", async () => {
    for (const name of ["kept", "gone", "again"]) await client.create(robotType, robot(name));
    await start();
    changes.length = 0;
    server.intercept = () => ({ status: 500, headers: {}, body: statusError("InternalError", "down").status });
    server.endWatches(new Error("broken"));
    await settle();
    server.intercept = undefined;
    await client.delete(robotType, { namespace: "a", name: "gone" });
    await client.delete(robotType, { namespace: "a", name: "again" });
    await client.create(robotType, robot("again"));
    server.compact();
    await clock.advance(30_000);
    await settle();
    expect(changes).toEqual(["delete gone uid-2 was uid-2", "delete again uid-3 was uid-3", "create again uid-4"]);
    const relist = server.requests.filter((request) => request.query?.["resourceVersionMatch"] === "NotOlderThan");
    expect(relist.map((request) => request.query?.["resourceVersion"])).toEqual(["103"]);
  });

  test("serves the old state during a relist", async () => {
    await client.create(robotType, robot("r"));
    await start();
    let answer = (): void => {};
    server.intercept = async (request, isWatch) => {
      if (isWatch || request.method !== "GET") return undefined;
      await new Promise<void>((resolve) => (answer = resolve));
      return undefined;
    };
    server.send({ type: "ERROR", object: statusError("Expired", "").status });
    await settle();
    await client.delete(robotType, { namespace: "a", name: "r" });
    expect(cache.list(robotType).length).toBe(1);
    server.intercept = undefined;
    answer();
    await settle();
    expect(cache.list(robotType).length).toBe(0);
  });

  test("retries after errors with a delay of 800 ms, doubled up to 30 s, reset after two minutes without failures", async () => {
    let down = true;
    const at: number[] = [];
    server.intercept = (_, isWatch) => {
      if (isWatch || !down) return undefined;
      at.push(clock.monotonic());
      return { status: 500, headers: {}, body: statusError("InternalError", "down").status };
    };
    const started = start();
    await clock.advance(110_000);
    down = false;
    await clock.advance(30_000);
    await started;
    const gaps = at.slice(1).map((time, index) => time - (at[index] ?? 0));
    expect(gaps.slice(0, 7)).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
    await clock.advance(200_000);
    at.length = 0;
    down = true;
    server.send({ type: "ERROR", object: statusError("Expired", "").status });
    await clock.advance(801);
    expect(at.length).toBe(2);
    down = false;
    await clock.advance(30_000);
  });

  test("does not reopen immediately if the server ends every watch immediately", async () => {
    await start();
    server.requests.length = 0;
    for (let time = 0; time < 100; time++) {
      server.endWatches();
      await clock.advance(10);
    }
    expect(server.requests.length).toBeLessThanOrEqual(2);
  });

  test("reopens a lost watch immediately if it had delivered events, and otherwise with backoff", async () => {
    await start();
    server.requests.length = 0;
    const broken = new TransportError("ConnectionLost", "cut");
    for (let time = 0; time < 20; time++) {
      await client.create(robotType, robot(`r${time}`));
      await settle();
      server.endWatches(broken);
      await settle();
    }
    expect(changes).toHaveLength(20);
    expect(server.openWatches).toBe(1);
    await clock.advance(1_000);
    server.endWatches(broken);
    await settle();
    expect(server.openWatches).toBe(1);
    server.endWatches(broken);
    await settle();
    expect(server.openWatches).toBe(0);
    await clock.advance(801);
    expect(server.openWatches).toBe(1);
  });

  test("watches only the selected namespaces, and keeps them separate during a relist", async () => {
    cache = make({ namespaces: ["a", "b"] });
    for (const namespace of ["a", "b", "c"]) await client.create(robotType, robot(`in-${namespace}`, {}, namespace));
    await start();
    expect(cache.list(robotType).map((each) => each.metadata.name)).toEqual(["in-a", "in-b"]);
    server.send({ type: "ERROR", object: statusError("Expired", "").status });
    await settle();
    expect(cache.list(robotType).map((each) => each.metadata.name)).toEqual(["in-a", "in-b"]);
    expect(changes).toEqual(["create in-a uid-1 initially", "create in-b uid-2 initially"]);
  });

  test("delivers every object again about every ten hours", async () => {
    await client.create(robotType, robot("r"));
    await start();
    changes.length = 0;
    await clock.advance(9 * 60 * 60_000 - 1);
    expect(changes).toEqual([]);
    await clock.advance(1);
    expect(changes).toEqual(["update r uid-1 was uid-1"]);
  });
});
