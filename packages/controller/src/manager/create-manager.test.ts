import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import { createManager } from "./create-manager.ts";
import type { Manager, ManagerOptions } from "./manager.ts";
import { defineController } from "../reconcile/define-controller.ts";
import type { ReconcileContext } from "../reconcile/controller-definition.ts";
import { type Request, TerminalError } from "../reconcile/result.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { configMapType, robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
});

function manage(options: Partial<ManagerOptions>): Manager {
  return createManager({ client, clock, controllers: [], name: "test", random: () => 0, ...options });
}

const settle = (): Promise<void> =>
  clock
    .advance(0)
    .then(() => clock.advance(0))
    .then(() => clock.advance(0));

describe("manager", () => {
  test("reconciles existing objects, changes, and changes of owned objects", async () => {
    const seen: string[] = [];
    await client.create(robotType, { metadata: { namespace: "a", name: "r1" } });
    const controller = defineController({
      name: "robots",
      for: robotType,
      owns: [configMapType],
      reconcile: async ({ namespace, name }, { cache }) => {
        seen.push(`${namespace}/${name} ${cache.get(robotType, { namespace, name })?.spec?.model}`);
      },
    });
    await using manager = manage({ controllers: [controller] });
    await manager.start();
    await settle();
    expect(seen).toEqual(["a/r1 undefined"]);
    const robot = await client.patch(
      robotType,
      { namespace: "a", name: "r1" },
      { type: "merge", body: { spec: { model: "x" } } },
    );
    await settle();
    expect(seen).toEqual(["a/r1 undefined", "a/r1 x"]);
    const owner = {
      apiVersion: "example.org/v1beta1",
      kind: "Robot",
      name: "r1",
      uid: robot.metadata.uid ?? "",
      controller: true,
    };
    await client.create(configMapType, { metadata: { namespace: "a", name: "c", ownerReferences: [owner] } });
    await client.create(configMapType, { metadata: { namespace: "a", name: "d" } });
    await settle();
    expect(seen).toEqual(["a/r1 undefined", "a/r1 x", "a/r1 x"]);
  });

  test("stops completely even if a trigger or the caller's shutdown throws", async () => {
    const broken = {
      start: () => (): never => {
        throw new Error("trigger");
      },
    };
    const last = { start: () => () => void stopped.push("last") };
    const stopped: string[] = [];
    const controller = defineController({ name: "r", for: robotType, triggers: [broken, last], reconcile: async () => {} });
    const manager = manage({ controllers: [controller], afterControllers: () => Promise.reject(new Error("after")) });
    await manager.start();
    await manager.stop();
    await manager.done;
    expect(stopped).toEqual(["last"]);
    expect([clock.pendingTimers, server.openWatches]).toEqual([0, 0]);
  });

  test("leaves no timer and no watch behind", async () => {
    const manager = manage({
      controllers: [defineController({ name: "r", for: robotType, reconcile: async () => ({ requeueAfterMs: 1e6 }) })],
    });
    await client.create(robotType, { metadata: { namespace: "a", name: "r1" } });
    await manager.start();
    await settle();
    expect(server.openWatches).toBe(1);
    await manager.stop();
    await manager.done;
    expect(clock.pendingTimers).toBe(0);
    expect(server.openWatches).toBe(0);
  });

  test("does not reconcile a request again before the cache shows its writes, and occupies no worker in the meantime", async () => {
    const seen: (string | undefined)[] = [];
    await client.create(robotType, { metadata: { namespace: "a", name: "r1" } });
    await client.create(robotType, { metadata: { namespace: "a", name: "r2" } });
    const reconcile = async (request: Request, { client: own, cache }: ReconcileContext): Promise<void> => {
      const robot = cache.get(robotType, request);
      seen.push(`${request.name} ${robot?.status?.phase}`);
      if (request.name === "r1" && robot?.status?.phase === undefined) {
        server.pause();
        await own.patch(robotType, request, { type: "merge", body: { status: { phase: "Up" } } }, { subresource: "status" });
      }
    };
    await using manager = manage({ controllers: [defineController({ name: "r", for: robotType, reconcile, owns: [] })] });
    await manager.start();
    await settle();
    expect(seen).toEqual(["r1 undefined", "r2 undefined"]);
    // A trigger for r1 from elsewhere: the stale cache must not be acted on, and r2 must not be kept waiting.
    const kinds = manager.cache.get(robotType, { namespace: "a", name: "r1" });
    server.send({ type: "MODIFIED", object: { ...kinds, spec: { size: 1 } } });
    const other = manager.cache.get(robotType, { namespace: "a", name: "r2" });
    server.send({ type: "MODIFIED", object: { ...other, spec: { size: 2 } } });
    await settle();
    expect(seen).toEqual(["r1 undefined", "r2 undefined", "r2 undefined"]);
    server.resume();
    await settle();
    expect(seen.slice(3)).toEqual(["r1 Up"]);
  });

  test("retries errors with exponential backoff, terminal errors never, and requeues on time", async () => {
    const at: number[] = [];
    await client.create(robotType, { metadata: { namespace: "a", name: "r1" } });
    const outcomes: (() => { requeueAfterMs: number } | undefined)[] = [
      () => fail("one"),
      () => fail("two"),
      () => ({ requeueAfterMs: 1000 }),
      () => fail("three"),
      () => {
        throw new TerminalError("no");
      },
    ];
    const controller = defineController({
      name: "r",
      for: robotType,
      reconcile: async () => {
        at.push(clock.monotonic());
        return outcomes[at.length - 1]?.();
      },
    });
    await using manager = manage({ controllers: [controller] });
    await manager.start();
    await clock.advance(1_000_000);
    expect(at).toEqual([0, 5, 15, 1015, 1020]);
  });

  test("a controller's own backoff decides how long requests wait, and whether changes end the wait", async () => {
    const at: number[] = [];
    await client.create(robotType, { metadata: { namespace: "a", name: "r1" } });
    const options = {
      name: "r",
      for: robotType,
      reconcile: async () => {
        at.push(clock.monotonic());
        fail("always");
      },
    };
    const backoff = { baseDelayMs: 1_000, maxDelayMs: 3_000, triggerDuringBackoff: "hold" } as const;
    await using manager = manage({ controllers: [defineController({ ...options, backoff })] });
    await manager.start();
    await clock.advance(1_500);
    await client.patch(
      robotType,
      { namespace: "a", name: "r1" },
      { type: "merge", body: { metadata: { labels: { a: "b" } } } },
    );
    await clock.advance(7_500);
    expect(at).toEqual([0, 1_000, 3_000, 6_000, 9_000]);
    for (const [name, wrong] of Object.entries({
      baseDelayMs: 0,
      maxDelayMs: 1,
      jitter: -1,
      retryRate: { perSecond: 1, burst: 0 },
    })) {
      const refused = manage({ controllers: [defineController({ ...options, backoff: { ...backoff, [name]: wrong } })] });
      await expect(refused.start()).rejects.toThrow(name);
      await refused.stop();
    }
  });

  test("the maximum of concurrent reconciles is taken from the controller, the kind or the manager", async () => {
    const running = new Map<string, number>();
    const controllers = [
      { name: "own", for: robotType, maxConcurrentReconciles: 1 },
      { name: "kind", for: robotType },
      { name: "core", for: configMapType },
      { name: "default", for: { ...robotType, kind: "Other", plural: "others" } },
    ].map((options) =>
      defineController({
        ...options,
        reconcile: async (_, { signal }) => {
          running.set(options.name, (running.get(options.name) ?? 0) + 1);
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        },
      }),
    );
    for (const { for: type } of controllers.slice(1))
      for (const name of ["a", "b", "c", "d"]) await client.create(type, { metadata: { namespace: "a", name } });
    await using manager = manage({
      controllers,
      maxConcurrentReconciles: 2,
      groupKindConcurrency: { "Robot.example.org": 3, ConfigMap: 4 },
      gracefulShutdownTimeoutMs: 0,
    });
    await manager.start();
    await settle();
    expect(Object.fromEntries(running)).toEqual({ own: 1, kind: 3, core: 4, default: 2 });
  });

  test.each([0, -1, 1.5, Number.NaN])("rejects a maximum of %d concurrent reconciles", (count) => {
    const controllers = [defineController({ name: "r", for: robotType, reconcile: async () => {} })];
    expect(() => manage({ controllers, maxConcurrentReconciles: count })).toThrow(
      `controller "r": maxConcurrentReconciles must be a whole number of at least 1, got ${count}`,
    );
  });

  test("rejects with the kind if a cache does not sync in time", async () => {
    server.intercept = (request) => (request.path.includes("robots") ? { status: 404, headers: {}, body: "" } : undefined);
    const manager = manage({ controllers: [defineController({ name: "r", for: robotType, reconcile: async () => {} })] });
    const started = manager.start();
    started.catch(() => {});
    await clock.advance(120_000);
    await expect(started).rejects.toThrow(/robots\.v1\.example\.org \(the server does not serve this kind\)/);
    await manager.stop();
    expect(clock.pendingTimers).toBe(0);
  });
});

function fail(message: string): never {
  throw new Error(message);
}
