import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { sleep } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { type ControllerOptions, defineController, watchOf } from "./define-controller.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import type { ReconcileContext, Trigger } from "./controller-definition.ts";
import type { Request } from "./result.ts";
import { createPrometheusMetrics, type PrometheusMetrics } from "../metrics/prometheus-metrics.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { configMapType, type Robot, robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;
let metrics: PrometheusMetrics;

beforeEach(async () => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
  metrics = await createPrometheusMetrics();
});

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await clock.advance(0);
};
const create = (name: string, more: Partial<Robot> = {}) =>
  client.create(robotType, { metadata: { namespace: "a", name }, ...more });
const touch = (name: string, spec: object) =>
  client.patch(robotType, { namespace: "a", name }, { type: "merge", body: { spec } });

async function run(
  reconcile: (
    request: Request,
    context: ReconcileContext,
  ) => Promise<{ requeueAfterMs?: number; priority?: number } | undefined | void>,
  more: Partial<ControllerOptions<Robot>> = {},
) {
  const controllers = [defineController({ name: "robots", for: robotType, reconcile, ...more })];
  const manager = createManager({ client, clock, controllers, name: "test", random: () => 0, metrics });
  await manager.start();
  await settle();
  return manager;
}

async function figure(name: string): Promise<number> {
  const { text } = await metrics.scrape();
  return Number(
    text
      .split("\n")
      .find((line) => line.startsWith(name))
      ?.split(" ")
      .at(-1),
  );
}

describe("controller", () => {
  test("handles requests in the order of priorityOf, which may read the cache and may fail", async () => {
    for (const [name, size] of [
      ["low", 1],
      ["broken", -1],
      ["high", 2],
    ] as const) {
      await create(name, { spec: { size } });
    }
    const seen: string[] = [];
    const priorityOf: ControllerOptions<Robot>["priorityOf"] = (request, cache) => {
      const size = cache.get(robotType, request)?.spec?.size ?? 0;
      if (size < 0) throw new Error("no size");
      return size;
    };
    const manager = await run(async ({ name }) => void seen.push(name), { priorityOf, maxConcurrentReconciles: 1 });
    expect(seen).toEqual(["high", "low", "broken"]);
    await manager.stop();
  });

  test("lets namespaces take turns", async () => {
    for (const [namespace, name] of ["crowded/a", "crowded/b", "crowded/c", "quiet/a"].map((key) => key.split("/"))) {
      await client.create(robotType, { metadata: { namespace, name } });
    }
    const seen: unknown[] = [];
    await using _ = await run(async ({ namespace }) => void seen.push(namespace), { maxConcurrentReconciles: 1 });
    expect(seen).toEqual(["crowded", "quiet", "crowded", "crowded"]);
  });

  test("lets the event loop turn between slow reconciles that complete without I/O", async () => {
    const count = 20;
    for (let index = 0; index < count; index++) await create(`r${index}`);
    let workMs = 0;
    const slow = { ...clock, now: () => clock.now(), monotonic: () => clock.monotonic() + workMs };
    const isDone = createDeferred<void>();
    let turns = 0;
    const perTurn = new Map<number, number>();
    const turn = (): void => void ((turns += 1), setImmediate(turn).unref());
    let reconciles = 0;
    const reconcile = async (): Promise<void> => {
      if (reconciles++ === 0) turn();
      workMs += 5;
      perTurn.set(turns, (perTurn.get(turns) ?? 0) + 1);
      if (reconciles === count) isDone.resolve(undefined);
    };
    const controllers = [defineController({ name: "robots", for: robotType, reconcile, maxConcurrentReconciles: 1 })];
    await using manager = createManager({ client, clock: slow, controllers, name: "test", random: () => 0, metrics });
    await manager.start();
    await isDone.promise;
    expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(3);
  });

  test("lets any number of requests of running reconciles listen to its signal", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const manager = await run(async (_request, { signal }) => {
      for (let index = 0; index < 20; index++) signal.addEventListener("abort", () => index);
    });
    await create("r");
    await settle();
    await manager.stop();
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });

  test("starts when every existing object is queued, and handles changes first", async () => {
    for (const name of ["r1", "r2", "r3"]) await create(name);
    const seen: string[] = [];
    const gate = createDeferred<void>();
    await using _ = await run(async ({ name }) => {
      seen.push(name);
      await gate.promise;
    });
    await touch("r3", { size: 1 });
    await create("new");
    await settle();
    gate.resolve(undefined);
    await settle();
    expect(seen).toEqual(["r1", "r3", "new", "r2"]);
  });

  test("limits concurrent reconciles, and never runs one request concurrently", async () => {
    let running = 0;
    let most = 0;
    const busy = new Map<string, number>();
    await using _ = await run(
      async ({ name }, context) => {
        most = Math.max(most, ++running);
        expect(busy.get(name) ?? 0).toBe(0);
        busy.set(name, 1);
        await sleep(context.clock, 10);
        busy.set(name, 0);
        running--;
      },
      { maxConcurrentReconciles: 3 },
    );
    for (let index = 0; index < 10; index++) await create(`r${index}`);
    for (let round = 0; round < 5; round++) {
      for (let index = 0; index < 10; index++) await touch(`r${index}`, { size: round });
      await clock.advance(7);
    }
    await clock.advance(1000);
    expect(most).toBe(3);
    expect(await figure('controller_runtime_reconcile_errors_total{controller="robots"}')).toBe(0);
  });

  test("aborts a reconcile after its timeout, and counts only its own timeouts", async () => {
    await create("slow");
    const reasons: unknown[] = [];
    const manager = await run(
      async (_, { signal, clock: own }) => {
        await sleep(own, 60_000, signal).catch((error: unknown) => {
          reasons.push(error);
          throw error;
        });
      },
      { reconcileTimeoutMs: 1000 },
    );
    await clock.advance(1000);
    expect(reasons).toMatchObject([{ code: "ReconcileTimeout" }]);
    expect(await figure("controller_runtime_reconcile_timeouts_total")).toBe(1);
    await clock.advance(10);
    const stopped = manager.stop();
    await clock.advance(30_000);
    await stopped;
    expect(clock.pendingTimers).toBe(0);
  });

  test("counts a bug as a panic, retries, and continues with other requests", async () => {
    await create("bad");
    await create("good");
    const seen: string[] = [];
    await using _ = await run(async ({ name }) => {
      seen.push(name);
      if (name === "bad" && seen.length < 3) throw new TypeError("undefined is not a function");
    });
    await clock.advance(100);
    expect(seen).toEqual(["bad", "good", "bad"]);
    expect(await figure("controller_runtime_reconcile_panics_total")).toBe(1);
    expect(await figure('controller_runtime_reconcile_total{controller="robots",result="error"}')).toBe(1);
  });

  test("handles a reconcile that throws synchronously", async () => {
    await create("r");
    let calls = 0;
    await using _ = await run(() => {
      if (++calls === 1) throw new Error("synchronous");
      return Promise.resolve();
    });
    await clock.advance(100);
    expect(calls).toBe(2);
  });

  test("does not reset the backoff before a reconcile succeeds", async () => {
    await create("r");
    const at: number[] = [];
    await using _ = await run(async () => {
      at.push(clock.monotonic());
      if (at.length !== 4) throw new Error("no");
    });
    await clock.advance(100);
    await touch("r", { size: 1 });
    await clock.advance(100);
    expect(at).toEqual([0, 5, 15, 35, 100, 105, 115, 135, 175]);
  });

  test("a stop waits for running reconciles during the grace period, then aborts them", async () => {
    await create("r");
    let isAborted = false;
    const manager = await run(
      (_, { signal }) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => {
            isAborted = true;
            resolve();
          });
        }),
    );
    let isStopped = false;
    const stopping = manager.stop().then(() => (isStopped = true));
    await clock.advance(29_999);
    expect([isAborted, isStopped]).toEqual([false, false]);
    await clock.advance(1);
    await stopping;
    expect(isAborted).toBe(true);
    await settle();
    expect(clock.pendingTimers).toBe(0);
  });

  test("a stop waits indefinitely if the grace period is negative", async () => {
    await create("r");
    const gate = createDeferred<void>();
    let isAborted = false;
    const manager = createManager({
      ...{ client, clock, name: "test", random: () => 0, gracefulShutdownTimeoutMs: -1 },
      controllers: [
        defineController({
          name: "robots",
          for: robotType,
          async reconcile(_, { signal }) {
            signal.addEventListener("abort", () => (isAborted = true), { once: true });
            await gate.promise;
          },
        }),
      ],
    });
    await manager.start();
    await settle();
    let isStopped = false;
    const stopping = manager.stop().then(() => (isStopped = true));
    await clock.advance(86_400_000);
    expect([isStopped, isAborted]).toEqual([false, false]);
    gate.resolve(undefined);
    await stopping;
    expect(clock.pendingTimers).toBe(0);
  });

  test("a predicate that throws lets the change pass, and a map function that throws loses only its own requests", async () => {
    const seen: string[] = [];
    const fails = (text: string) => (): never => {
      throw new TypeError(text);
    };
    await using manager = await run(async ({ name }) => void seen.push(name), {
      predicates: [fails("predicate")],
      watches: [
        watchOf(configMapType, ({ data }) =>
          data?.["to"] === undefined ? fails("map")() : [{ namespace: "a", name: data["to"] }],
        ),
      ],
    });
    await create("r1");
    await settle();
    expect(seen).toEqual(["r1"]);
    const key = { namespace: "a", name: "c" };
    await client.create(configMapType, { metadata: key });
    await settle();
    expect(seen).toEqual(["r1"]);
    await client.patch(configMapType, key, { type: "merge", body: { data: { to: "r2" } } });
    await settle();
    expect(seen).toEqual(["r1", "r2"]);
    expect(manager.cache.list(configMapType)).toHaveLength(1);
  });

  test("maps both sides of an update of a watched object", async () => {
    const seen: string[] = [];
    await using _ = await run(async ({ name }) => void seen.push(name), {
      watches: [
        watchOf(configMapType, (map) =>
          map.data?.["robot"] === undefined ? [] : [{ namespace: "a", name: map.data["robot"] }],
        ),
      ],
    });
    await client.create(configMapType, { metadata: { namespace: "a", name: "c" }, data: { robot: "r1" } });
    await settle();
    await client.patch(configMapType, { namespace: "a", name: "c" }, { type: "merge", body: { data: { robot: "r2" } } });
    await settle();
    expect(seen).toEqual(["r1", "r2", "r1"]);
  });

  test("waits until the cache shows its own deletions", async () => {
    await create("r");
    const key = { namespace: "a", name: "c" };
    await client.create(configMapType, { metadata: key });
    const seen: boolean[] = [];
    await using _ = await run(
      async (_request, { client: own, cache }) => {
        seen.push(cache.get(configMapType, key) !== undefined);
        if (seen.length > 1) return;
        server.pause();
        await own.delete(configMapType, key);
        return { requeueAfterMs: 1 };
      },
      { reads: [{ type: configMapType }] },
    );
    await clock.advance(4_000);
    expect(seen).toEqual([true]);
    server.resume();
    await settle();
    expect(seen).toEqual([true, false]);
  });

  test("retries every 5 s with backoff while own writes are not visible, and runs when they are", async () => {
    await create("r");
    const seen: (number | undefined)[] = [];
    await using _ = await run(async (request, { client: own, cache }) => {
      seen.push(cache.get(robotType, request)?.spec?.size);
      if (seen.length > 1) return;
      server.pause();
      await own.patch(robotType, request, { type: "merge", body: { spec: { size: 1 } } });
      return { requeueAfterMs: 1 };
    });
    await clock.advance(60_000);
    expect(seen).toEqual([undefined]);
    expect(await figure("workqueue_retries_total")).toBeGreaterThan(5);
    server.resume();
    await settle();
    expect(seen).toEqual([undefined, 1]);
  });

  test("a stop waits for triggers to stop, and logs a trigger that fails to", async () => {
    const errors: string[] = [];
    const logger: Logger = { ...silentLogger, error: ({ err }) => errors.push(String(err)), child: () => logger };
    const closed = createDeferred<void>();
    const triggers: readonly Trigger[] = [
      { start: () => () => Promise.reject(new Error("broker is away")) },
      {
        start: () => () => {
          throw new Error("not open");
        },
      },
      { start: () => () => closed.promise },
    ];
    const controllers = [defineController({ name: "robots", for: robotType, triggers, reconcile: async () => {} })];
    const manager = createManager({ client, clock, controllers, name: "test", logger });
    await manager.start();
    let hasStopped = false;
    const stopped = manager.stop().then(() => (hasStopped = true));
    await settle();
    expect(hasStopped).toBe(false);
    closed.resolve(undefined);
    await stopped;
    expect(errors.sort()).toEqual(["Error: broker is away", "Error: not open"]);
  });

  test("recreates an object that was deleted by another while no watch was open", async () => {
    await create("r");
    const key = { namespace: "a", name: "part" };
    await using _ = await run(
      async (_request, { client: own, cache }) => {
        if (cache.get(configMapType, key) === undefined) await own.create(configMapType, { metadata: key });
      },
      { reads: [{ type: configMapType }] },
    );
    await client.delete(configMapType, key);
    await settle();
    // It has no owner, so its deletion triggers no reconcile.
    expect(server.objects.size).toBe(1);
    // Only the change of "r" is delivered.
    server.pause();
    await touch("r", { size: 1 });
    server.resume();
    server.pause();
    await settle();
    expect(server.objects.size).toBe(2);
    await client.delete(configMapType, key);
    server.compact();
    server.endWatches(new Error("cut"));
    await clock.advance(2_000);
    expect(server.objects.size).toBe(2);
  });
});
