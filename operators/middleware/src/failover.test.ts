import { describe, expect, it } from "vitest";
import { createSimulation, type Simulation } from "./testing/simulation.ts";

const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { maxmemory: "64mb", databases: "16" },
  components: nodes({ replicas: 3, storage: { size: "64Mi" } }),
};
const pod = (ordinal: number): string => `cache-redis-nodes-${ordinal}`;

async function provisioned(options: Parameters<typeof createSimulation>[0] = {}): Promise<Simulation> {
  const simulation = createSimulation(options);
  simulation.create(spec);
  await simulation.run();
  return simulation;
}

const groupOf = ({ store }: Simulation) =>
  store.all("Group")[0]?.status as { primary?: { pod: string; epoch: number }; failover?: object; fencing?: object };

/** What must hold after a failure: one primary with every acknowledged write, and all Pods in sync. */
function expectRecovered(simulation: Simulation): void {
  const { primary } = groupOf(simulation);
  expect(simulation.redis.writesOf(primary?.pod ?? "")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  expect(simulation.status().phase).toBe("Running");
  expect(simulation.store.all("Pod")).toHaveLength(3);
  expect(groupOf(simulation)).not.toHaveProperty("failover");
  expect(groupOf(simulation)).not.toHaveProperty("fencing");
}

describe("a primary that fails", { timeout: 300_000 }, () => {
  it.each<[string, (simulation: Simulation) => void]>([
    ["whose program and agent are killed", ({ redis }) => redis.kill(pod(0))],
    ["whose Pod is deleted", ({ store }) => store.edit("Pod", pod(0), (each) => deleted(each))],
    ["that no longer responds", ({ redis }) => redis.freeze(pod(0))],
  ])("%s is replaced by a replica, and no acknowledged write is lost", async (_, fail) => {
    const simulation = await provisioned();
    fail(simulation);
    await simulation.run(() => groupOf(simulation).primary?.pod !== pod(0));
    simulation.redis.restart(pod(0));
    await simulation.run();
    expect(groupOf(simulation).primary?.pod).not.toBe(pod(0));
    expect(simulation.events).toContainEqual(expect.objectContaining({ reason: "FailoverStarted" }));
    expectRecovered(simulation);
  });

  it.each(["keys", "volume"] as const)("and returns without its %s follows a replica that has the data", async (lost) => {
    const simulation = await provisioned();
    const acknowledged = simulation.redis.acknowledgedBy("cache-redis-nodes");
    expect(acknowledged).toBeGreaterThan(0);
    simulation.redis.kill(pod(0));
    simulation.redis.restart(pod(0), lost);
    await simulation.run();
    expect(groupOf(simulation).primary?.pod).not.toBe(pod(0));
    expect(simulation.redis.acknowledgedBy("cache-redis-nodes")).toBeGreaterThan(acknowledged);
    expectRecovered(simulation);
  });

  it("is terminated before a replica takes over if it does not respond", async () => {
    const simulation = await provisioned();
    const from = simulation.actions.length;
    simulation.redis.freeze(pod(0));
    await simulation.run();
    const actions = simulation.actions.slice(from);
    const deleted = actions.indexOf(`delete Pod ${pod(0)}`);
    const promoted = simulation.redis.commands.filter(({ command }) => command === "promoted");
    expect(deleted).toBeGreaterThan(-1);
    expect(actions.findLastIndex((each) => each.startsWith("Failover"))).toBeGreaterThan(deleted);
    expect(promoted).toHaveLength(2);
    expectRecovered(simulation);
  });

  it("without a replica that can take over is named in the App's message", async () => {
    const simulation = await provisioned();
    for (const ordinal of [0, 1, 2]) simulation.redis.kill(pod(ordinal));
    await simulation.run();
    expect(simulation.status()).toMatchObject({ phase: "Degraded" });
    expect(simulation.status().message).toBe(`not all Pods are ready; nodes: waiting for the agent of ${pod(0)}`);
  });

  it("and resumes before it is terminated stays the primary", async () => {
    const simulation = await provisioned();
    simulation.redis.freeze(pod(0));
    await simulation.run(() => groupOf(simulation).fencing !== undefined);
    simulation.redis.thaw(pod(0));
    await simulation.run();
    expect(groupOf(simulation).primary?.pod).toBe(pod(0));
    expectRecovered(simulation);
  });

  it("together with all replicas is followed by the Pod with the most data", async () => {
    const simulation = await provisioned();
    for (const ordinal of [0, 1, 2]) simulation.redis.kill(pod(ordinal));
    simulation.redis.restart(pod(0), "keys");
    simulation.redis.restart(pod(1));
    simulation.redis.restart(pod(2));
    await simulation.run();
    expect(groupOf(simulation).primary?.pod).toBe(pod(1));
    expectRecovered(simulation);
  });

  it("during a switchover is replaced by the chosen replica only", async () => {
    const simulation = await provisioned();
    simulation.redis.answers = (call) =>
      call.method === "Failover" && call.token.includes("switchover") ? { kind: "unreachable", message: "cut" } : undefined;
    simulation.change({ config: { maxmemory: "64mb", databases: "32" } });
    const chosen = (): string | undefined =>
      (simulation.store.all("Group")[0]?.status as { switchover?: { to: string } } | undefined)?.switchover?.to;
    await simulation.run(() => chosen() !== undefined);
    const to = chosen();
    simulation.redis.kill(pod(0));
    await simulation.run(() => groupOf(simulation).primary?.pod !== pod(0));
    expect(groupOf(simulation).primary?.pod).toBe(to);
    simulation.redis.restart(pod(0));
    await simulation.run();
    expectRecovered(simulation);
  });

  it.each([
    [2, true],
    [0, undefined],
  ])(
    "in an upgrade with %i upgraded replicas: the point of no return is %s when a replica has taken over",
    async (upgraded, isPast) => {
      const simulation = await provisioned();
      simulation.redis.answers = (call) =>
        call.method === "Failover" && call.token.includes("switchover") ? { kind: "unreachable", message: "cut" } : undefined;
      const upgradedPods = () => simulation.store.all("Pod").filter((each) => JSON.stringify(each.spec).includes(":7.2"));
      const group = () =>
        simulation.store.all("Group")[0]?.status as {
          primary?: { pod: string };
          restarting?: object;
          operation?: { phase: string; pointOfNoReturn?: boolean };
        };
      simulation.change({ runtime: { name: "redis", version: "7.2" } });
      await simulation.run(
        () => group().operation?.phase === "Running" && upgradedPods().length === upgraded && group().restarting === undefined,
      );
      simulation.redis.kill(pod(0));
      await simulation.run(() => group().primary?.pod !== pod(0));
      expect(group().operation).toMatchObject({ phase: "Running" });
      expect(group().operation?.pointOfNoReturn).toBe(isPast);
    },
  );

  it.each(["kill", "freeze"] as const)("(%s) is replaced once, wherever the controllers crash", async (kind) => {
    const whole = await provisioned({ isRecorded: true });
    const first = whole.actions.length;
    whole.redis[kind](pod(0));
    const restartOld = async (simulation: Simulation): Promise<void> => {
      await simulation.run(() => groupOf(simulation).primary?.pod !== pod(0));
      simulation.redis.restart(pod(0));
    };
    await restartOld(whole);
    const beforeRestart = whole.actions.length;
    await whole.run();
    for (const [index, from] of whole.snapshots.entries()) {
      if (index < first) continue;
      const simulation = createSimulation({ from });
      if (index < beforeRestart) await restartOld(simulation);
      await simulation.run();
      expectRecovered(simulation);
      const promoted = simulation.redis.commands.filter(({ command }) => command === "promoted");
      expect(promoted, `after ${whole.actions[index]}`).toHaveLength(2);
    }
  });
});

const deleted = <T extends { metadata: { deletionTimestamp?: string } }>(object: T): T => ({
  ...object,
  metadata: { ...object.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
});
