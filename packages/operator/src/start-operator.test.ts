import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Client, createClient, TransportError } from "@keelson/client";
import { beforeEach, describe, expect, test } from "vitest";
import { defineController, type Leadership, readOf } from "@keelson/controller";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createPrometheusMetrics } from "@keelson/controller/metrics";
import type { StateMetric } from "./monitoring/operator-monitoring.ts";
import type { Operator, ServerDefinition } from "./operator.ts";
import { startOperator } from "./start-operator.ts";
import { FakeApiServer } from "../../controller/src/testing/fake-api-server.ts";
import { configMapType, robotType } from "../../controller/src/testing/kinds.ts";

let server: FakeApiServer;
let client: Client;
let clock: VirtualClock;
let story: string[];

beforeEach(() => {
  server = new FakeApiServer();
  clock = createVirtualClock();
  client = createClient({ transport: server, fieldManager: "test", clock });
  story = [];
});

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await clock.advance(0);
};

const bridge = (name: string, more: Partial<ServerDefinition> = {}): ServerDefinition => ({
  name,
  reads: [readOf(configMapType)],
  async start({ cache, onChange, flags }) {
    story.push(`${name} starts and sees ${cache.list(configMapType).length} with ${String(flags["port"])}`);
    onChange(configMapType, (change) => story.push(`${name} hears ${change.type} ${change.object.metadata.name}`));
    return { description: `${name} is up`, stop: async () => void story.push(`${name} stops`) };
  },
  ...more,
});

const operator = (...servers: readonly ServerDefinition[]): Operator => ({
  name: "robots",
  description: "",
  resources: [],
  rules: [],
  commands: [],
  servers,
  controllers: () => [
    defineController({ name: "robots", for: robotType, reconcile: async ({ name }) => void story.push(`reconciles ${name}`) }),
  ],
});

describe("startOperator", () => {
  test("exports metrics of servers until they stop", async () => {
    const metrics = await createPrometheusMetrics({ clock });
    const figures = bridge("figures", {
      start: ({ collectMetrics }) => {
        const stop = collectMetrics(() => [
          { name: "example_robots", help: "Robots", type: "gauge", samples: [{ labels: {}, value: 3 }] },
        ]);
        return Promise.resolve({ description: "figures", stop: () => Promise.resolve(stop()) });
      },
    });
    const running = await startOperator({ operator: operator(figures), client, clock, dataDir: "/tmp", metrics });
    expect((await metrics.scrape()).text).toContain("example_robots 3\n");
    await running.stop();
    expect((await metrics.scrape()).text).not.toContain("example_robots");
  });

  test("exports metrics of objects while it leads", async () => {
    const metrics = await createPrometheusMetrics({ clock });
    await client.create(configMapType, { metadata: { namespace: "a", name: "c" } });
    const read: StateMetric["read"] = (cache, now) =>
      cache.list(configMapType).map(({ metadata: { name } }) => ({ labels: { name }, value: now }));
    const monitored: Operator = {
      ...operator(),
      monitoring: { reads: [readOf(configMapType)], metrics: { example_maps: { help: "Maps", read } } },
    };
    const lease = { namespace: "a", name: "operator" };
    const options = { operator: monitored, client, clock, dataDir: "/tmp", metrics };
    const leader = await startOperator({ operator: operator(), client, clock, dataDir: "/tmp", leaderElection: lease });
    await settle();
    const running = await startOperator({ ...options, leaderElection: lease });
    await settle();
    expect((await metrics.scrape()).text).not.toContain("example_maps");
    await leader.stop();
    await clock.advance(5_000);
    await settle();
    expect((await metrics.scrape()).text).toContain(`example_maps{name="c"} ${clock.now()}\n`);
    await running.stop();
    expect((await metrics.scrape()).text).not.toContain("example_maps");
  });

  test("starts caches, servers, controllers, and stops them in reverse order", async () => {
    await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
    await client.create(configMapType, { metadata: { namespace: "a", name: "c" } });
    const running = await startOperator({
      operator: operator(bridge("one"), bridge("two")),
      client,
      clock,
      dataDir: "/tmp",
      flags: { port: "1" },
    });
    await settle();
    await client.create(configMapType, { metadata: { namespace: "a", name: "d" } });
    await settle();
    expect(running.descriptions).toEqual(["one is up", "two is up"]);
    await running.stop();
    await running.done;
    expect(story).toEqual([
      "one starts and sees 1 with 1",
      "two starts and sees 1 with 1",
      "reconciles r",
      "one hears create d",
      "two hears create d",
      "two stops",
      "one stops",
    ]);
    expect(clock.pendingTimers).toBe(0);
    expect(server.openWatches).toBe(0);
  });

  test("stops what has started if a server does not start", async () => {
    const bad = bridge("bad", { start: () => Promise.reject(new Error("the port is taken")) });
    await expect(startOperator({ operator: operator(bridge("one"), bad), client, clock, dataDir: "/tmp" })).rejects.toThrow(
      "the port is taken",
    );
    expect(story).toEqual(["one starts and sees 0 with undefined", "one stops"]);
    expect(clock.pendingTimers).toBe(0);
    expect(server.openWatches).toBe(0);
  });

  const cut = new TransportError("ConnectionLost", "cut");

  test.each([0, 0.999])("retries a server that lost its connection within 2 s, for up to 10 s (jitter %f)", async (jitter) => {
    const attempts: number[] = [];
    let isAway = true;
    const flaky = bridge("flaky", {
      async start() {
        attempts.push(clock.monotonic());
        if (isAway) throw cut;
        return { description: "flaky is up", stop: async () => {} };
      },
    });
    const options = { operator: operator(flaky), client, clock, dataDir: "/tmp", random: () => jitter };
    const starting = startOperator(options);
    await clock.advance(4_000);
    isAway = false;
    await clock.advance(2_000);
    await (await starting).stop();
    expect(attempts.length).toBeLessThan(12);

    isAway = true;
    attempts.length = 0;
    const failing = startOperator(options);
    failing.catch(() => {});
    await clock.advance(12_000);
    await expect(failing).rejects.toBe(cut);
    expect((attempts.at(-1) ?? 0) - (attempts[0] ?? 0)).toBeGreaterThan(7_000);
    expect(clock.pendingTimers).toBe(0);
  });

  test("stops immediately while a server waits for its retry", async () => {
    const lost = bridge("lost", { needsLeaderElection: true, start: () => Promise.reject(cut) });
    const leaderElection = { namespace: "a", name: "op" };
    const running = await startOperator({ operator: operator(lost), client, clock, dataDir: "/tmp", leaderElection });
    await settle();
    await running.stop();
    await running.done;
    expect(clock.pendingTimers).toBe(0);
  });

  test("with leader election, starts servers that need it when it leads, before the controllers", async () => {
    await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
    const servers = [bridge("needs", { needsLeaderElection: true }), bridge("always")];
    const leaderElection = { namespace: "a", name: "op" };
    const onLeadership = ({ kind }: Leadership): void => void story.push(`is ${kind}`);
    const running = await startOperator({
      ...{ operator: operator(...servers), client, clock, dataDir: "/tmp", leaderElection, onLeadership },
    });
    expect(story).toEqual(["always starts and sees 0 with undefined"]);
    await settle();
    expect(story.slice(1)).toEqual(["needs starts and sees 0 with undefined", "reconciles r", "is leading"]);
    await running.stop();
    expect(clock.pendingTimers).toBe(0);
  });

  test("also stops a server that is still starting", async () => {
    const started = createDeferred<void>();
    const slow = bridge("slow", {
      needsLeaderElection: true,
      async start() {
        story.push("slow starts");
        await started.promise;
        return { description: "slow", stop: async () => void story.push("slow stops") };
      },
    });
    const leaderElection = { namespace: "a", name: "op" };
    const running = await startOperator({ operator: operator(slow), client, clock, dataDir: "/tmp", leaderElection });
    await settle();
    const stopped = running.stop();
    await settle();
    started.resolve();
    await stopped;
    expect(story).toEqual(["slow starts", "slow stops"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("continues if onLeadership throws", async () => {
    await client.create(robotType, { metadata: { namespace: "a", name: "r" } });
    const onLeadership = (): never => {
      throw new Error("the display is broken");
    };
    const running = await startOperator({ operator: operator(), client, clock, dataDir: "/tmp", onLeadership });
    await settle();
    expect(story).toEqual(["reconciles r"]);
    await running.stop();
    await running.done;
  });
});
