import { statusError } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { Transport } from "@keelson/api-machinery/transport";
import { type Client, createClient, createHttpTransport } from "@keelson/client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createManager } from "./manager/create-manager.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { Informer } from "./informer/informer.ts";
import { type Logger, silentLogger } from "./logging/logger.ts";
import type { Manager } from "./manager/manager.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { type ControllerOptions, defineController } from "./reconcile/define-controller.ts";
import type { Request } from "./reconcile/result.ts";
import { FakeApiServer } from "./testing/fake-api-server.ts";
import { HttpApiServer } from "./testing/http-api-server.ts";
import { type Robot, robotType } from "./testing/kinds.ts";

let api: FakeApiServer;
let clock: VirtualClock;
/** Writes past every fault. */
let direct: Client;

beforeEach(() => {
  api = new FakeApiServer();
  clock = createVirtualClock();
  direct = createClient({ transport: api, fieldManager: "test", clock });
});

const create = (name: string) => direct.create(robotType, { metadata: { namespace: "a", name } });
const setSize = (name: string, size: number) =>
  direct.patch(robotType, { namespace: "a", name }, { type: "merge", body: { spec: { size } } });
const remove = (name: string) => direct.delete(robotType, { namespace: "a", name });

/** A controller that records the state that each reconcile finds, and concurrent reconciles of one object. */
function observe(client: Client, more: Partial<ControllerOptions<Robot>> = {}, initialList: "pages" | "stream" = "pages") {
  const seen = new Map<string, unknown[]>();
  const running = new Set<string>();
  let overlaps = 0;
  const controller = defineController({
    name: "robots",
    for: robotType,
    maxConcurrentReconciles: 4,
    async reconcile({ namespace, name }: Request, { cache }) {
      if (running.has(name)) overlaps++;
      running.add(name);
      const robot = cache.get(robotType, { namespace, name });
      seen.set(name, [...(seen.get(name) ?? []), robot === undefined ? "gone" : (robot.spec?.size ?? 0)]);
      await Promise.resolve();
      running.delete(name);
    },
    ...more,
  });
  const cache = { initialList };
  const manager = createManager({ client, clock, controllers: [controller], name: "test", random: () => 0, cache });
  return {
    manager,
    seen,
    last: () => Object.fromEntries([...seen].map(([name, states]) => [name, states.at(-1)])),
    overlaps: () => overlaps,
  };
}

describe("over a faulty connection, the controller sees every object's last state, reconciles none concurrently, and leaves nothing behind", () => {
  let http: HttpApiServer;
  let client: Client;
  let manager: Manager | undefined;

  beforeEach(async () => {
    http = new HttpApiServer(api);
    await http.start();
    client = createClient({ transport: createHttpTransport({ server: http.url, clock }), fieldManager: "test", clock });
  });
  afterEach(async () => {
    await manager?.stop();
    await client.close();
    await http.stop();
  });

  /** Moves the clock as often as it takes; what is real, the connection, takes its own time between. */
  const eventually = (stepMs: number, isSo: () => void): Promise<void> =>
    vi.waitFor(
      async () => {
        await clock.advance(stepMs);
        isSo();
      },
      { timeout: 25_000, interval: 5 },
    );

  const faults: readonly (readonly [string, number, () => Promise<void> | void])[] = [
    ["cut within a line", 1_000, () => http.cutWithinLine()],
    [
      "with a server that is killed and started again",
      1_000,
      async () => {
        await http.stop();
        await http.start();
      },
    ],
    ["half open: silent without an error", 20_000, () => http.silence()],
    [
      "cut, with all later events compacted",
      1_000,
      () => {
        http.cutWithinLine();
        api.compact();
      },
    ],
  ];
  test.each(faults.flatMap(([name, ...fault]) => [["pages", name, ...fault] as const, ["stream", name, ...fault] as const]))(
    "begun by %s: %s",
    async (initialList, _, stepMs, break_) => {
      api.streams = true;
      for (const name of ["kept", "deleted", "recreated"]) await create(name);
      const { manager: started, seen, last, overlaps } = observe(client, {}, initialList);
      manager = started;
      const starting = started.start();
      await eventually(0, () => expect(seen.size).toBe(3));
      await starting;
      await eventually(0, () => expect(http.openWatches).toBe(1));
      const uid = started.cache.get(robotType, { namespace: "a", name: "recreated" })?.metadata.uid;

      await break_();
      await setSize("kept", 7);
      await remove("deleted");
      await remove("recreated");
      await create("recreated");
      await create("new");
      const wanted = { kept: 7, deleted: "gone", recreated: 0, new: 0 };
      await eventually(stepMs, () => {
        expect(last()).toEqual(wanted);
        expect(started.cache.get(robotType, { namespace: "a", name: "recreated" })?.metadata.uid).not.toBe(uid);
        expect(started.cache.get(robotType, { namespace: "a", name: "kept" })?.spec?.size).toBe(7);
      });
      expect(overlaps()).toBe(0);

      await started.stop();
      await client.close();
      expect(clock.pendingTimers).toBe(0);
      await expect.poll(() => http.openSockets, { timeout: 5_000 }).toBe(0);
    },
    40_000,
  );
});

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await clock.advance(0);
};

test("lists the newest state if the server has compacted the watch's version and then the version requested instead", async () => {
  for (const name of ["kept", "deleted", "recreated"]) await create(name);
  const { manager, last, overlaps } = observe(direct);
  await manager.start();
  await settle();
  const uid = manager.cache.get(robotType, { namespace: "a", name: "recreated" })?.metadata.uid;
  const asked: unknown[] = [];
  const gone = { status: 410, headers: {}, body: statusError("Expired", "too old").status };
  api.intercept = ({ method, query }, isWatch) => {
    if (method !== "GET") return undefined;
    asked.push([isWatch ? "watch" : "list", query?.["resourceVersion"]]);
    return asked.length <= 2 ? gone : undefined;
  };
  // 410 as the answer of the watch, again as that of the list, and later once more in band.
  const { version } = api;
  api.endWatches(new Error("cut"));
  await settle();
  await setSize("kept", 7);
  await remove("deleted");
  await remove("recreated");
  await create("recreated");
  await clock.advance(1_000);
  await settle();
  expect(asked.slice(0, 3)).toEqual([
    ["watch", version],
    ["list", version],
    ["list", undefined],
  ]);
  expect(last()).toEqual({ kept: 7, deleted: "gone", recreated: 0 });
  expect(manager.cache.get(robotType, { namespace: "a", name: "recreated" })?.metadata.uid).not.toBe(uid);
  asked.length = 2;
  api.send({ type: "ERROR", object: statusError("Expired", "too old").status });
  await setSize("kept", 8);
  await settle();
  expect(last()).toMatchObject({ kept: 8 });
  expect(asked.slice(2).map((each) => (each as unknown[])[0])).toEqual(["list", "watch"]);
  expect(overlaps()).toBe(0);
  await manager.stop();
  expect([clock.pendingTimers, api.openWatches]).toEqual([0, 0]);
});

test("metrics that throw and events that cannot be written do not stop reconciles", async () => {
  const broken = (): never => {
    throw new Error("no metrics");
  };
  const metrics: Metrics = {
    controller: () => ({
      ...{ added: broken, depthChanged: broken, waited: broken, worked: broken, retried: broken, reconciled: broken },
      ...{ terminalError: broken, panicked: broken, timedOut: broken, activeWorkers: broken, watchInProgress: broken },
    }),
    ...{ watchCache: broken, leading: broken, leaderSlowPath: broken },
  };
  const said: string[] = [];
  const logger: Logger = { ...silentLogger, error: (_, message) => said.push(message), child: () => logger };
  api.intercept = ({ path }) => {
    if (path.includes("/events")) throw new Error("no events here");
    return undefined;
  };
  const runs: string[] = [];
  const controller = defineController({
    name: "robots",
    for: robotType,
    async reconcile({ name }, { cache, events }) {
      runs.push(name);
      const robot = cache.get(robotType, { namespace: "a", name });
      if (robot !== undefined) events.event(robot, { type: "Normal", reason: "Seen", note: "seen" });
      if (name === "a" && runs.length === 1) throw new TypeError("once");
      return name === "b" ? { requeueAfterMs: 60_000 } : undefined;
    },
  });
  const leaderElection = { namespace: "a", name: "lease" };
  const options = { client: direct, clock, name: "test", random: () => 0, gracefulShutdownTimeoutMs: 1_000 };
  const manager = createManager({ ...options, controllers: [controller], metrics, logger, leaderElection });
  await create("a");
  await create("b");
  await manager.start();
  await settle();
  await clock.advance(60_000);
  expect(runs).toEqual(["a", "b", "a", "b"]);
  // Logged once per metric, not once per call.
  expect(said.filter((message) => message.startsWith("metric ")).length).toBe(new Set(said).size - 1);
  const stopping = manager.stop();
  await clock.advance(60_000);
  await stopping;
  expect([clock.pendingTimers, api.openWatches]).toEqual([0, 0]);
});

test("reopens a watch after the server's Retry-After, not before", async () => {
  const asked: number[] = [];
  const refusal = {
    status: 429,
    headers: {},
    body: statusError("TooManyRequests", "slow down", { retryAfterSeconds: 90 }).status,
  };
  let refusals = 0;
  api.intercept = (_, isWatch) => {
    if (!isWatch) return undefined;
    asked.push(clock.monotonic());
    return refusals++ < 1 ? refusal : undefined;
  };
  const { manager, last } = observe(direct);
  await manager.start();
  await settle();
  await create("a");
  await clock.advance(89_000);
  expect(asked).toEqual([0]);
  await clock.advance(1_000);
  await settle();
  expect(asked).toEqual([0, 90_000]);
  expect(last()).toEqual({ a: 0 });
  await manager.stop();
  expect([clock.pendingTimers, api.openWatches]).toEqual([0, 0]);
});

test("a reconcile slower than the changes runs once more for all of them and sees the last", async () => {
  const gate = createDeferred<void>();
  const sizes: unknown[] = [];
  const { manager } = observe(direct, {
    async reconcile(request, { cache }) {
      sizes.push(cache.get(robotType, request)?.spec?.size);
      if (sizes.length === 1) await gate.promise;
    },
  });
  await using _ = manager;
  await create("a");
  await manager.start();
  await settle();
  for (let size = 1; size <= 1_000; size++) await setSize("a", size);
  await settle();
  gate.resolve(undefined);
  await settle();
  expect(sizes).toEqual([undefined, 1_000]);
});

test("jumps of the wall clock move no deadline", async () => {
  const at: number[] = [];
  const { manager } = observe(direct, {
    async reconcile() {
      at.push(clock.monotonic());
      if (at.length === 1) throw new Error("once");
      return { requeueAfterMs: 60_000 };
    },
  });
  await using _ = manager;
  await create("a");
  await manager.start();
  await settle();
  clock.jump(-86_400_000);
  await clock.advance(5);
  clock.jump(2 * 86_400_000);
  await clock.advance(59_999);
  expect(at).toEqual([0, 5]);
  await clock.advance(1);
  expect(at).toEqual([0, 5, 60_005]);
});

test("delivers no more events of a batch after a stop", async () => {
  const abort = new AbortController();
  const events = ["1", "2", "3"].map((resourceVersion) => ({
    type: "ADDED" as const,
    object: { apiVersion: "example.org/v1", kind: "Robot", metadata: { namespace: "a", name: "r", resourceVersion } },
  }));
  const transport: Transport = {
    request: (request) => api.request(request),
    close: async () => {},
    watch: async () => ({
      close: () => {},
      async *batches() {
        yield events;
      },
      async *[Symbol.asyncIterator]() {
        yield* events;
      },
    }),
  };
  const seen: unknown[] = [];
  const informer = new Informer({
    ...{ client: createClient({ transport, fieldManager: "test", clock }), type: robotType, clock, random: () => 0 },
    log: silentLogger,
    onEffect(effect) {
      if (effect.kind !== "put") return;
      seen.push(effect.object.metadata.resourceVersion);
      if (seen.length === 2) abort.abort();
    },
  });
  await informer.run(abort.signal);
  expect(seen).toEqual(["1", "2"]);
});

test("distinguishes versions beyond 2^53", async () => {
  const abort = new AbortController();
  const informer = new Informer({
    client: direct,
    type: robotType,
    clock,
    random: () => 0,
    log: silentLogger,
    onEffect: () => {},
  });
  const run = informer.run(abort.signal);
  await settle();
  const seen: string[] = [];
  informer.whenSeen("9007199254740993", () => seen.push("9007199254740993"));
  const bookmark = (resourceVersion: string) => api.send({ type: "BOOKMARK", object: { metadata: { resourceVersion } } });
  // Number("9007199254740993") is 9007199254740992: the version before would pass for this one.
  bookmark("9007199254740992");
  await settle();
  expect([informer.hasSeen("9007199254740992"), informer.hasSeen("9007199254740993"), seen]).toEqual([true, false, []]);
  bookmark("9007199254740993");
  await settle();
  expect(seen).toEqual(["9007199254740993"]);
  abort.abort();
  await run;
});
