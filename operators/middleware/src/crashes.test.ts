import { describe, expect, it } from "vitest";
import { createSimulation, type Simulation } from "./testing/simulation.ts";

const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { redisConfig: { maxmemory: "64mb", databases: "16" } },
  components: nodes({ replicas: 3, storage: { size: "64Mi" } }),
};

/** Changes of an App with the maximum disruption of its Pods, wherever the controllers crash. */
const changes: readonly {
  readonly name: string;
  readonly change: object;
  readonly starts: readonly number[];
  readonly promotions: number;
  readonly pods?: number;
  /** Tests every n-th write. Default: every write. */
  readonly stride?: number;
}[] = [
  { name: "a hot parameter", change: { config: { maxmemory: "96mb", databases: "16" } }, starts: [0, 0, 0], promotions: 0 },
  { name: "a cold parameter", change: { config: { maxmemory: "64mb", databases: "32" } }, starts: [1, 1, 1], promotions: 1 },
  { name: "a new version", change: { runtime: { name: "redis", version: "7.2" } }, starts: [1, 1, 1], promotions: 1 },
  {
    name: "larger volumes",
    change: { components: nodes({ replicas: 3, storage: { size: "96Mi" } }) },
    starts: [0, 0, 0],
    promotions: 0,
  },
  {
    name: "one more Pod",
    change: { components: nodes({ replicas: 4, storage: { size: "64Mi" } }) },
    starts: [0, 0, 0, 1],
    promotions: 0,
    pods: 4,
  },
  {
    name: "one Pod less",
    change: { components: nodes({ replicas: 2, storage: { size: "64Mi" } }) },
    starts: [0, 0, 0],
    promotions: 0,
    pods: 2,
  },
  {
    name: "a quorum",
    change: { components: nodes({ replicas: 3, storage: { size: "64Mi" }, highAvailability: { quorum: true } }) },
    starts: [0, 0, 0],
    promotions: 0,
  },
  { name: "a stop", change: { stopped: true }, starts: [0, 0, 0], promotions: 0, pods: 0 },
  {
    name: "everything in one change",
    change: {
      runtime: { name: "redis", version: "7.2" },
      config: { maxmemory: "96mb", databases: "16" },
      components: nodes({ replicas: 4, storage: { size: "96Mi" } }),
    },
    starts: [1, 1, 1, 2],
    promotions: 1,
    pods: 4,
    stride: 4,
  },
];

async function provisioned(): Promise<Simulation> {
  const simulation = createSimulation({ isRecorded: true });
  simulation.create(spec);
  await simulation.run();
  return simulation;
}

/** Invariants of the final state. */
function expectHealthy({ store, redis, status, errors }: Simulation, pods: number): void {
  expect(status()).toMatchObject({ phase: pods === 0 ? "Stopped" : "Running", plan: { outcome: "Succeeded" } });
  expect(status().plan?.tasks.every((task) => task.status === "done" && task.attempt === 1)).toBe(true);
  expect(store.all("Pod")).toHaveLength(pods);
  const [group] = store.all("Group");
  expect(group?.status).not.toHaveProperty("restarting");
  expect(group?.status).not.toHaveProperty("switchover");
  const primary = store.all("Pod").find((pod) => pod.metadata.labels?.["middleware.io/role"] === "primary");
  expect(redis.acknowledgedBy("cache-redis-nodes")).toBeGreaterThan(0);
  if (pods > 0) expect(redis.writesOf(primary?.metadata.name ?? "")).toBe(redis.acknowledgedBy("cache-redis-nodes"));
  expect(errors).toEqual([]);
}

const count = ({ redis }: Simulation, from: number, command: string, pod?: string): number =>
  redis.commands.slice(from).filter((each) => each.command === command && (pod === undefined || each.pod === pod)).length;

/** Dozens of simulated Apps: slow on a busy machine. */
const slow = { timeout: 600_000 };

describe("controllers that crash after any write or call", () => {
  it("provision each Pod once with one primary", slow, async () => {
    const whole = await provisioned();
    expectHealthy(whole, 3);
    expect(whole.actions.length).toBeGreaterThan(15);
    expect(whole.snapshots).toHaveLength(whole.actions.length);
    for (const [index, from] of whole.snapshots.entries()) {
      const simulation = createSimulation({ from });
      await simulation.run();
      expectHealthy(simulation, 3);
      const where = `after ${index + 1}: ${whole.actions[index]}`;
      expect([count(simulation, 0, "starts"), count(simulation, 0, "promoted")], where).toEqual([3, 1]);
    }
  });

  it.each(changes)("apply $name once and lose no acknowledged write", slow, async (each) => {
    const { change, starts, promotions, pods = 3, stride = 1 } = each;
    const whole = await provisioned();
    const first = whole.actions.length;
    const from = whole.redis.commands.length;
    whole.change(change);
    await whole.run();
    expectHealthy(whole, pods);
    for (let index = first; index < whole.snapshots.length; index += stride) {
      const simulation = createSimulation({ from: whole.snapshots[index] });
      await simulation.run();
      expectHealthy(simulation, pods);
      const where = `after ${index + 1}: ${whole.actions[index]}`;
      const started = starts.map((_, ordinal) => count(simulation, from, "starts", `cache-redis-nodes-${ordinal}`));
      expect(started, where).toEqual(starts);
      expect(count(simulation, from, "promoted"), where).toBe(promotions);
    }
  });
});
