import { describe, expect, it } from "vitest";
import { annotations } from "../../api/names.ts";
import { provisioned } from "../../testing/simulated-app.ts";
import type { Simulation } from "../../testing/simulation.ts";

const groupOf = ({ store }: Simulation) =>
  store.all("Group")[0]?.status as {
    primary?: { pod: string };
    restartControl?: { id: string; result: string };
  };
const request = (simulation: Simulation, value: object): void =>
  simulation.store.edit("Group", "cache-redis-nodes", (each) => ({
    ...each,
    metadata: {
      ...each.metadata,
      annotations: { ...each.metadata.annotations, [annotations.restartControl]: JSON.stringify(value) },
    },
  }));
const started = ({ redis }: Simulation, from: number): readonly string[] =>
  redis.commands
    .slice(from)
    .filter(({ command }) => command === "starts")
    .map(({ pod }) => pod.slice(-1));
const rebuildOf = ({ store }: Simulation, name: string): readonly string[] => {
  const spec = store.get("Pod", name)?.spec as { containers: { env: { name: string; value?: string }[] }[] } | undefined;
  const env = spec?.containers.flatMap((container) => container.env) ?? [];
  return env.flatMap((each) => (each.name === "KEELSON_REBUILD" ? (each.value ?? "") : []));
};

describe("a requested restart", { timeout: 60_000 }, () => {
  it("restarts every Pod once, the primary last and after a switchover, and loses no acknowledged write", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    request(simulation, { id: "1" });
    await simulation.run();
    expect(started(simulation, from)).toEqual(["2", "1", "0"]);
    expect(groupOf(simulation)).toMatchObject({ restartControl: { id: "1", result: "done" } });
    const { pod = "" } = groupOf(simulation).primary ?? {};
    expect(pod).not.toBe("cache-redis-nodes-0");
    expect(simulation.redis.writesOf(pod)).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
    expect(rebuildOf(simulation, "cache-redis-nodes-2")).toEqual([]);
  });

  it("restarts one Pod if it is named, and refuses an unknown one", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    request(simulation, { id: "1", pod: "cache-redis-nodes-1" });
    await simulation.run();
    expect(started(simulation, from)).toEqual(["1"]);
    request(simulation, { id: "2", pod: "other" });
    await simulation.run();
    expect(groupOf(simulation).restartControl).toEqual({ id: "2", result: "refused: other has no Pod" });
  });

  it("is refused, and ends, if the primary cannot hand its role over", async () => {
    const simulation = await provisioned();
    simulation.redis.answers = (call) => (call.method === "Failover" ? { kind: "refused", message: "not now" } : undefined);
    request(simulation, { id: "1", pod: "cache-redis-nodes-0" });
    await simulation.run();
    expect(groupOf(simulation).restartControl).toEqual({ id: "1", result: "refused: not now" });
  });

  it("rebuilds a replica with a Pod that discards its data, and refuses to rebuild the primary", async () => {
    const simulation = await provisioned();
    request(simulation, { id: "7", pod: "cache-redis-nodes-1", rebuild: true });
    await simulation.run();
    expect(rebuildOf(simulation, "cache-redis-nodes-1")).toEqual(["7"]);
    expect(groupOf(simulation).restartControl).toEqual({ id: "7", result: "done" });
    request(simulation, { id: "8", pod: "cache-redis-nodes-0", rebuild: true });
    await simulation.run();
    expect(groupOf(simulation).restartControl?.result).toMatch(/^refused: cache-redis-nodes-0 is the primary/);
  });

  it("rebuilds a replica that does not start", async () => {
    const simulation = await provisioned();
    simulation.redis.kill("cache-redis-nodes-2");
    await simulation.run();
    request(simulation, { id: "9", pod: "cache-redis-nodes-2", rebuild: true });
    await simulation.run();
    expect(groupOf(simulation).restartControl).toEqual({ id: "9", result: "done" });
    expect(simulation.status().phase).toBe("Running");
  });
});
