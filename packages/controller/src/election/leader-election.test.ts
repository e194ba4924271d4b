import { statusError } from "@keelson/api-machinery";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { Clock } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import { createManager } from "../manager/create-manager.ts";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { LeaderElection } from "./leader-election.ts";
import { Lease } from "@keelson/api-machinery/kinds";
import { silentLogger } from "../logging/logger.ts";
import { defineController } from "../reconcile/define-controller.ts";
import type { ReconcileContext } from "../reconcile/controller-definition.ts";
import { FakeApiServer } from "../testing/fake-api-server.ts";
import { robotType } from "../testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
});

const key = { namespace: "kube-system", name: "op" };
const elect = (identity: string): LeaderElection =>
  new LeaderElection({ client, ...key, identity, clock, random: () => 0, log: silentLogger });
const down = { status: 500, headers: {}, body: statusError("InternalError", "down").status };
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 5; turn++) await clock.advance(0);
};

/** A clock that can jump, as after a blocked event loop. */
const blockable = () => {
  let blockedMs = 0;
  const shifted: Clock = {
    ...{ setTimer: (...timer) => clock.setTimer(...timer) },
    now: () => clock.now() + blockedMs,
    monotonic: () => clock.monotonic() + blockedMs,
  };
  return { clock: shifted, block: (ms: number) => void (blockedMs += ms) };
};

describe("leader election", () => {
  test("the first takes the lease; the second waits until 15 s after the last observed renewal", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    expect((await client.get(Lease, key)).spec).toMatchObject({
      holderIdentity: "one",
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
    });
    const two = elect("two");
    let acquiredAt: number | undefined;
    const acquired = two.acquire(stop.signal).then(() => (acquiredAt = clock.monotonic()));
    const held = one.hold(stop.signal);
    await clock.advance(30_000);
    expect(one.isLeader).toBe(true);
    expect(acquiredAt).toBeUndefined();
    stop.abort();
    await held;
    const again = new AbortController();
    await acquired.catch(() => {});
    const three = elect("three");
    const from = clock.monotonic();
    const won = three.acquire(again.signal).then(() => clock.monotonic() - from);
    await clock.advance(14_999);
    expect((await client.get(Lease, key)).spec?.holderIdentity).toBe("one");
    await clock.advance(2_000);
    expect(await won).toBe(15_000);
    expect((await client.get(Lease, key)).spec).toMatchObject({ holderIdentity: "three", leaseTransitions: 1 });
    expect(clock.pendingTimers).toBe(0);
  });

  test("waits for the duration in the lease, not for its own", async () => {
    const stop = new AbortController();
    await new LeaderElection({
      ...{ client, ...key, identity: "patient", clock, random: () => 0, log: silentLogger, leaseDurationMs: 60_000 },
    }).acquire(stop.signal);
    let acquiredAt: number | undefined;
    const acquired = elect("hasty")
      .acquire(stop.signal)
      .then(() => (acquiredAt = clock.monotonic()));
    await clock.advance(59_999);
    expect(acquiredAt).toBeUndefined();
    await clock.advance(2_001);
    await acquired;
    expect(acquiredAt).toBe(60_000);
  });

  test("reports each holder once while waiting, and none if it gets the lease immediately", async () => {
    const stop = new AbortController();
    const seen: unknown[] = [];
    const watchful = (identity: string): LeaderElection =>
      new LeaderElection({
        ...{ client, ...key, identity, clock, random: () => 0, log: silentLogger },
        onStandby: (holder) => seen.push([identity, holder]),
      });
    await watchful("one").acquire(stop.signal);
    server.intercept = () => down;
    const acquired = watchful("two").acquire(stop.signal);
    await clock.advance(3_000);
    expect(seen).toEqual([["two", undefined]]);
    server.intercept = undefined;
    await clock.advance(10_000);
    expect(seen.slice(1)).toEqual([["two", "one"]]);
    await clock.advance(15_000);
    await acquired;
    expect(seen).toHaveLength(2);
    expect(clock.pendingTimers).toBe(0);
  });

  test("renews every 2 s with one request", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    server.requests.length = 0;
    const held = one.hold(stop.signal);
    await clock.advance(20_000);
    expect(server.requests.map((request) => request.method)).toEqual(Array.from({ length: 10 }, () => "PUT"));
    stop.abort();
    await held;
  });

  test("gives up after 10 s without a renewal, and does not lead even before it notices", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    const held = one.hold(stop.signal);
    const lost = held;
    lost.catch(() => {});
    await clock.advance(1_000);
    server.intercept = () => down;
    await clock.advance(8_999);
    expect(one.isLeader).toBe(true);
    await clock.advance(1);
    expect(one.isLeader).toBe(false);
    await clock.advance(2_000);
    await expect(lost).rejects.toThrow(/kube-system\/op was not renewed within 10 s/);
    expect(clock.pendingTimers).toBe(0);
  });

  test.each([
    ["continues after a short block of the event loop", 4_999, undefined],
    ["gives up after a long one, with time left to renew", 5_000, /event loop was blocked for 5\.0 s/],
    ["gives up after one beyond the renew deadline, and asks for nothing more", 60_000, /event loop was blocked for 60\.0 s/],
  ])("%s", async (_, ms, message) => {
    const stop = new AbortController();
    const { clock: shifted, block } = blockable();
    const one = new LeaderElection({ client, ...key, identity: "one", clock: shifted, random: () => 0, log: silentLogger });
    await one.acquire(stop.signal);
    let lost: unknown;
    const held = one.hold(stop.signal).catch((error: unknown) => (lost = error));
    await clock.advance(1_000);
    const asked = server.requests.length;
    block(ms);
    // Before any timer had its turn.
    expect(one.isLeader).toBe(1_000 + ms < 10_000);
    await clock.advance(1_000);
    await settle();
    expect([one.isLeader, server.requests.length - asked]).toEqual(message === undefined ? [true, 1] : [false, 0]);
    if (message === undefined) expect(lost).toBeUndefined();
    else expect(String(lost)).toMatch(message);
    stop.abort();
    await held;
    expect(clock.pendingTimers).toBe(0);
  });

  test("gives up if a renewal gets no response", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    server.intercept = () => new Promise(() => {});
    const lost = one.hold(stop.signal);
    lost.catch(() => {});
    await clock.advance(14_000);
    await expect(lost).rejects.toThrow(/was not renewed within 10 s/);
  });

  test("gives up immediately if another process holds the lease", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    const lease = await client.get(Lease, key);
    await client.update(Lease, { ...lease, spec: { ...lease.spec, holderIdentity: "thief" } });
    const lost = one.hold(stop.signal);
    lost.catch(() => {});
    await clock.advance(2_000);
    await expect(lost).rejects.toThrow(/is now held by thief/);
    expect(one.isLeader).toBe(false);
  });

  test("does not lead after the machine slept and only the wall clock advanced", async () => {
    const one = elect("one");
    await one.acquire(new AbortController().signal);
    clock.jump(10_000);
    expect(one.isLeader).toBe(false);
    clock.jump(-60_000);
    expect(one.isLeader).toBe(true);
  });

  test("a released lease is taken at the next attempt", async () => {
    const stop = new AbortController();
    const one = elect("one");
    await one.acquire(stop.signal);
    await one.release();
    expect(one.isLeader).toBe(false);
    const two = elect("two");
    await two.acquire(stop.signal);
    expect(two.isLeader).toBe(true);
  });

  test("requires lease duration > renew deadline > retry period", () => {
    const make = (more: object) => () =>
      new LeaderElection({ client, ...key, clock, random: () => 0, log: silentLogger, ...more });
    expect(make({ leaseDurationMs: 10_000 })).toThrow(/leaseDurationMs/);
    expect(make({ retryPeriodMs: 9_000 })).toThrow(/renewDeadlineMs/);
  });
});

describe("manager with leader election", () => {
  const leaderElection = (identity: string) => ({ ...key, identity });
  const controller = (reconcile: (context: ReconcileContext) => Promise<void>) =>
    defineController({ name: "r", for: robotType, reconcile: (_, context) => reconcile(context) });
  const manage = (identity: string, reconcile: (context: ReconcileContext) => Promise<void>) =>
    createManager({
      client,
      clock,
      name: "test",
      random: () => 0,
      controllers: [controller(reconcile)],
      leaderElection: leaderElection(identity),
    });

  beforeEach(async () => {
    await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
  });

  test("one of two managers runs controllers; after its stop the other does, within one attempt", async () => {
    const seen: string[] = [];
    const one = manage("one", async () => void seen.push("one"));
    const two = manage("two", async () => void seen.push("two"));
    await one.start();
    await settle();
    await two.start();
    await clock.advance(10_000);
    expect(seen).toEqual(["one"]);
    await one.stop();
    await one.done;
    await clock.advance(2_000);
    expect(seen).toEqual(["one", "two"]);
    await two.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  test("a lost lease rejects done, aborts reconciles without grace, and blocks writes", async () => {
    let refused: unknown;
    let aborted = false;
    const manager = manage("one", async ({ signal, client: own }) => {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      aborted = true;
      await own.create(robotType, { metadata: { namespace: "a", name: "late" } }).catch((error: unknown) => (refused = error));
    });
    const done = manager.done;
    done.catch(() => {});
    await manager.start();
    await settle();
    server.intercept = (request) => (request.path.includes("leases") ? down : undefined);
    await clock.advance(12_000);
    await expect(done).rejects.toMatchObject({ code: "LeaseLost" });
    await settle();
    expect(aborted).toBe(true);
    expect(refused).toMatchObject({ code: "NotLeader" });
    expect(server.objects.has("/apis/example.org/v1/namespaces/a/robots/late")).toBe(false);
    expect(clock.pendingTimers).toBe(0);
  });

  test("an event loop blocked past the lease stops the manager, and no further write is sent", async () => {
    const { clock: shifted, block } = blockable();
    const results: unknown[] = [];
    const gate = createDeferred<void>();
    const manager = createManager({
      ...{ client, clock: shifted, name: "test", random: () => 0, leaderElection: leaderElection("one") },
      controllers: [
        controller(async ({ client: own }) => {
          const write = (name: string): Promise<unknown> => own.create(robotType, { metadata: { namespace: "b", name } });
          await write("before");
          await gate.promise;
          // The event loop runs again, but the loss of the lease has not been noticed yet.
          block(20_000);
          await write("after").catch((error: unknown) => results.push(error));
        }),
      ],
    });
    const { done } = manager;
    done.catch(() => {});
    await manager.start();
    await settle();
    gate.resolve(undefined);
    await settle();
    expect(results).toMatchObject([{ code: "NotLeader" }]);
    await clock.advance(2_000);
    await expect(done).rejects.toMatchObject({ code: "LeaseLost" });
    expect([...server.objects.keys()].filter((path) => path.includes("/b/"))).toEqual([
      "/apis/example.org/v1/namespaces/b/robots/before",
    ]);
    expect(clock.pendingTimers).toBe(0);
  });

  test.each(["that the server asked to retry later", "without a response"])(
    "a write %s is neither sent nor awaited after the lease is lost",
    async (what) => {
      const isDeferred = what.includes("later");
      const answer = { status: 429, headers: { "retry-after": "30" }, body: statusError("TooManyRequests", "busy").status };
      let refused: unknown;
      let sent = 0;
      const manager = manage("one", async ({ client: own }) => {
        await own
          .patch(robotType, { namespace: "a", name: "r" }, { type: "merge", body: { spec: { size: 1 } } })
          .catch((error: unknown) => (refused = error));
      });
      const done = manager.done;
      done.catch(() => {});
      server.intercept = (request) => {
        if (request.method !== "PATCH") return sent > 0 && request.path.includes("leases") ? down : undefined;
        sent++;
        if (isDeferred) return sent === 1 ? answer : undefined;
        return new Promise((_, reject) => {
          request.signal?.addEventListener("abort", () => reject(request.signal?.reason as Error), { once: true });
        });
      };
      await manager.start();
      await settle();
      expect(sent).toBe(1);
      await clock.advance(40_000);
      await expect(done).rejects.toMatchObject({ code: "LeaseLost" });
      expect(refused).toMatchObject({ code: "NotLeader" });
      expect(sent).toBe(1);
      expect(clock.pendingTimers).toBe(0);
    },
  );

  test("a process that was suspended does not send a queued write after its lease has expired", async () => {
    const { clock: shifted, block } = blockable();
    let refused: unknown;
    const manager = createManager({
      ...{ client, clock: shifted, name: "test", random: () => 0, leaderElection: leaderElection("one") },
      controllers: [
        controller(async ({ client: own }) => {
          const body = { spec: { size: 1 } };
          await own
            .patch(robotType, { namespace: "a", name: "r" }, { type: "merge", body })
            .catch((error: unknown) => (refused = error));
        }),
      ],
    });
    const { done } = manager;
    done.catch(() => {});
    let sent = 0;
    server.intercept = (request) => {
      if (request.method !== "PATCH" || ++sent > 1) return undefined;
      return { status: 429, headers: { "retry-after": "1" }, body: statusError("TooManyRequests", "busy").status };
    };
    await manager.start();
    await settle();
    // The write's turn comes before that of the renewal.
    block(20_000);
    await clock.advance(1_000);
    expect(refused).toMatchObject({ code: "NotLeader" });
    expect(sent).toBe(1);
    await clock.advance(1_000);
    await expect(done).rejects.toMatchObject({ code: "LeaseLost" });
    expect(clock.pendingTimers).toBe(0);
  });

  test("with warm-up, the queue is filled while another process leads; reconciles and writes start with leadership", async () => {
    const one = manage("one", async () => {});
    await one.start();
    await settle();
    const events: string[] = [];
    let refused: unknown;
    const shared = { for: robotType, reconcile: async () => {} };
    const definitions = [
      defineController({
        ...shared,
        name: "warm",
        warmUp: true,
        predicates: [({ object }) => events.push(`queued ${object.metadata.name}`) > 0],
        triggers: [
          {
            start({ client: own }) {
              events.push("triggered");
              own
                .create(robotType, { metadata: { namespace: "a", name: "early" } })
                .catch((error: unknown) => (refused = error));
              return () => {};
            },
          },
        ],
        reconcile: async ({ name }) => void events.push(`reconciled ${name}`),
      }),
      defineController({ ...shared, name: "cold", predicates: [() => events.push("cold") > 0] }),
      defineController({
        ...shared,
        name: "free",
        needsLeaderElection: false,
        reconcile: async () => void events.push("free"),
      }),
    ];
    const options = { client, clock, name: "test", random: () => 0, leaderElection: leaderElection("two") };
    const two = createManager({ ...options, controllers: definitions });
    await two.start();
    await settle();
    expect(events).toEqual(["queued r", "triggered", "free"]);
    expect(refused).toMatchObject({ code: "NotLeader" });
    await one.stop();
    await clock.advance(2_000);
    expect(events.slice(3)).toEqual(["reconciled r", "cold"]);
    await two.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  test("a standby with warm-up stops without having led, and leaves nothing behind", async () => {
    const one = manage("one", async () => {});
    await one.start();
    await settle();
    let stopped = 0;
    const two = createManager({
      ...{ client, clock, name: "test", random: () => 0, leaderElection: leaderElection("two") },
      controllers: [
        defineController({
          ...{ name: "r", for: robotType, warmUp: true, reconcile: async () => {} },
          triggers: [{ start: () => () => void stopped++ }],
        }),
      ],
    });
    await two.start();
    await settle();
    await two.stop();
    await two.done;
    expect(stopped).toBe(1);
    await one.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  test("a manager that never led stops without waiting for the lease", async () => {
    const one = manage("one", async () => {});
    await one.start();
    await settle();
    const two = manage("two", async () => {});
    await two.start();
    await settle();
    await two.stop();
    await two.done;
    expect((await client.get(Lease, key)).spec?.holderIdentity).toBe("one");
    await one.stop();
    expect((await client.get(Lease, key)).spec?.holderIdentity).toBe("");
  });
});
