import { statusError } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient } from "@keelson/client";
import { hostname } from "node:os";
import { beforeEach, describe, expect, test } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { LeaderElection } from "../election/leader-election.ts";
import { type Logger, silentLogger } from "../logging/logger.ts";
import type { ManagerOptions } from "../manager/manager.ts";
import { generationChanged } from "./predicates.ts";
import { type ControllerOptions, defineController } from "./define-controller.ts";
import type { ReconcileContext } from "./controller-definition.ts";
import { readOf } from "../cache/cache.ts";
import { type Request, type Result, TerminalError } from "./result.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { configMapType, type Robot, robotType } from "../testing/kinds.ts";

let api: FakeApiServer;
let clock: VirtualClock;
let client: Client;

beforeEach(() => {
  api = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: api, fieldManager: "test", clock });
});

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await clock.advance(0);
};
const create = (name: string) => client.create(robotType, { metadata: { namespace: "a", name } });
const setSize = (name: string, size: number) =>
  client.patch(robotType, { namespace: "a", name }, { type: "merge", body: { spec: { size } } });

type Reconcile = (request: Request, context: ReconcileContext) => Promise<Result | undefined | void>;

function manage(reconcile: Reconcile, more: Partial<ControllerOptions<Robot>> = {}, options: Partial<ManagerOptions> = {}) {
  const controller = defineController({ name: "robots", for: robotType, reconcile, ...more });
  return createManager({ client, clock, controllers: [controller], name: "test", random: () => 0, ...options });
}

describe("the result of a reconcile", () => {
  test("requeueAfterMs NaN is logged as a bug and retried", async () => {
    await create("r");
    const at: number[] = [];
    const errors: unknown[] = [];
    const logger: Logger = { ...silentLogger, error: ({ err }) => errors.push(String(err)), child: () => logger };
    const reconcile: Reconcile = async () => ({ requeueAfterMs: at.push(clock.monotonic()) === 1 ? Number.NaN : 1_000 });
    await using manager = manage(reconcile, {}, { logger });
    await manager.start();
    await clock.advance(1_500);
    expect(at).toEqual([0, 5, 1_005]);
    expect(errors).toEqual(["TypeError: reconcile returned NaN for requeueAfterMs"]);
  });

  test("an unprintable error and a throwing logger cost only the log line", async () => {
    for (const name of ["bad", "good"]) await create(name);
    const seen: string[] = [];
    const full = (): never => {
      throw new Error("no space for logs");
    };
    const logger: Logger = {
      debug: full,
      info: full,
      warn: full,
      error: full,
      child: (fields) => ("kind" in fields ? full() : logger),
    };
    const reconcile: Reconcile = async ({ name }, { log }) => {
      seen.push(name);
      log.info({}, "runs");
      if (name === "bad" && seen.length < 3) throw Object.create(null);
    };
    await using manager = manage(reconcile, {}, { logger });
    await manager.start();
    await clock.advance(100);
    expect(seen).toEqual(["bad", "good", "bad"]);
    expect(manager.reconciles({ name: "bad" })[0]?.error).toBe("unprintable error");
  });

  test("an error keeps the priority: initial objects are retried after changes", async () => {
    for (const name of ["first", "second"]) await create(name);
    const seen: string[] = [];
    const gate = createDeferred<void>();
    const manager = manage(async ({ name }) => {
      seen.push(name);
      if (seen.length === 1) throw new Error("once");
      if (seen.length === 2) await gate.promise;
    });
    await using _ = manager;
    await manager.start();
    await settle();
    // The retry of `first` is ready before anything of `news` is there.
    await clock.advance(5);
    await create("news");
    await settle();
    gate.resolve(undefined);
    await settle();
    expect(seen).toEqual(["first", "second", "news", "first"]);
  });

  test("a requeue uses the priority of the result", async () => {
    for (const name of ["a", "b", "c"]) await create(name);
    const seen: string[] = [];
    const gate = createDeferred<void>();
    const manager = manage(async ({ name }) => {
      seen.push(name);
      if (seen.length === 1) return { requeueAfterMs: 10, priority: 1 };
      if (seen.length === 2) await gate.promise;
      return undefined;
    });
    await using _ = manager;
    await manager.start();
    await settle();
    await clock.advance(10);
    gate.resolve(undefined);
    await settle();
    expect(seen).toEqual(["a", "b", "a", "c"]);
  });

  test("requeueAfterMs resets the failures and is not extended by them", async () => {
    await create("r");
    const at: number[] = [];
    const fails = [true, true, true, false, true, false];
    const manager = manage(async () => {
      at.push(clock.monotonic());
      if (fails[at.length - 1]) throw new Error("not yet");
      return { requeueAfterMs: 1_000 };
    });
    await using _ = manager;
    await manager.start();
    await clock.advance(1_100);
    expect(at).toEqual([0, 5, 15, 35, 1_035, 1_040]);
  });

  test("a terminal error is not retried and keeps the backoff", async () => {
    await create("r");
    const at: number[] = [];
    const manager = manage(async () => {
      at.push(clock.monotonic());
      if (at.length === 3) throw new TerminalError("permanent");
      throw new Error("not yet");
    });
    await using _ = manager;
    await manager.start();
    await clock.advance(60_000);
    expect(at).toEqual([0, 5, 15]);
    await setSize("r", 1);
    await clock.advance(60_000);
    // The third failure in its count waits 20 ms, not 5.
    expect(at.slice(3, 5)).toEqual([60_000, 60_020]);
  });

  test("every reconcile has a unique id in its log and record", async () => {
    await create("r");
    const logged: Record<string, unknown>[] = [];
    const loggerWith = (bound: Record<string, unknown>): Logger => ({
      ...silentLogger,
      info: (fields) => logged.push({ ...bound, ...fields }),
      child: (fields) => loggerWith({ ...bound, ...fields }),
    });
    const manager = manage(async (_, { log }) => log.info({}, "here"), {}, { logger: loggerWith({}) });
    await using _ = manager;
    await manager.start();
    await settle();
    await setSize("r", 1);
    await settle();
    const wanted = { controller: "robots", kind: "Robot", namespace: "a", name: "r" };
    expect(logged).toMatchObject([wanted, wanted]);
    const ids = logged.map((fields) => fields["reconcileID"]);
    expect(new Set(ids).size).toBe(2);
    expect(manager.reconciles().map(({ id }) => id)).toEqual(ids);
  });
});

describe("a controller's start", () => {
  test("rejects two controllers with the same name", () => {
    const twice = [1, 2].map(() => defineController({ name: "same", for: robotType, reconcile: async () => {} }));
    expect(() => createManager({ client, clock, name: "test", controllers: twice })).toThrow(
      /controller "same" is defined twice/,
    );
  });

  test("runs one reconcile at a time by default", async () => {
    for (const name of ["a", "b"]) await create(name);
    let running = 0;
    let most = 0;
    const gate = createDeferred<void>();
    const manager = manage(async () => {
      most = Math.max(most, ++running);
      await gate.promise;
      running--;
    });
    await using _ = manager;
    await manager.start();
    await settle();
    gate.resolve(undefined);
    await settle();
    expect(most).toBe(1);
  });

  test("waits for a kind that is installed later", async () => {
    const missing = { status: 404, headers: {}, body: statusError("NotFound", "no such kind").status };
    api.intercept = ({ path }) => (path.endsWith("/robots") ? missing : undefined);
    const seen: string[] = [];
    const manager = manage(async ({ name }) => void seen.push(name));
    await using _ = manager;
    const starting = manager.start();
    await clock.advance(60_000);
    api.intercept = undefined;
    await create("r");
    await clock.advance(30_000);
    await starting;
    await settle();
    expect(seen).toEqual(["r"]);
  });

  test("opens one watch per kind for any number of controllers and reads", async () => {
    await create("r");
    const seen: string[] = [];
    const make = (name: string, more: Partial<ControllerOptions<Robot>>) =>
      defineController({ ...more, name, for: robotType, reconcile: async () => void seen.push(name) });
    const first = make("first", { owns: [robotType] });
    const second = make("second", { owns: [configMapType], reads: [readOf(robotType)] });
    const manager = createManager({ client, clock, name: "test", random: () => 0, controllers: [first, second] });
    await using _ = manager;
    await manager.start();
    await settle();
    expect([seen.sort(), api.openWatches]).toEqual([["first", "second"], 2]);
  });

  test("the default identity is the host name and a unique suffix", () => {
    const make = () =>
      new LeaderElection({ client, namespace: "a", name: "l", clock, random: () => 0, log: silentLogger }).identity;
    expect(make().startsWith(`${hostname()}_`)).toBe(true);
    expect(make()).not.toBe(make());
  });
});

test("a recreated object with the same generation passes generationChanged, even if both events were missed", async () => {
  await create("r");
  const uids: unknown[] = [];
  const manager = manage(async (request, { cache }) => void uids.push(cache.get(robotType, request)?.metadata.uid), {
    predicates: [generationChanged],
  });
  await using _ = manager;
  await manager.start();
  await settle();
  await client.updateStatus(robotType, {
    ...(await client.get(robotType, { namespace: "a", name: "r" })),
    status: { phase: "changed" },
  });
  await settle();
  expect(uids).toEqual(["uid-1"]);
  api.endWatches(new Error("cut"));
  await settle();
  await client.delete(robotType, { namespace: "a", name: "r" });
  await create("r");
  api.compact();
  await clock.advance(30_000);
  await settle();
  expect(new Set(uids.slice(1))).toEqual(new Set(["uid-2"]));
});
