import { describe, expect, it } from "vitest";
import { annotations } from "./api/names.ts";
import {
  annotationsOf,
  coldChange,
  hasRestarted,
  hot,
  nodes,
  provisioned,
  size,
  spec,
  tasksOf,
} from "./testing/simulated-app.ts";
import { createSimulation } from "./testing/simulation.ts";

describe("a plan", { timeout: 60_000 }, () => {
  it("runs from P3 to P0, one task after another, and records events", async () => {
    const simulation = await provisioned();
    simulation.change({
      runtime: { name: "redis", version: "7.2" },
      ...hot("96mb"),
      components: nodes({ replicas: 4, storage: { size: "96Mi" } }),
    });
    let most = 0;
    await simulation.run(() => {
      const running = simulation.status().plan?.tasks.filter((task) => task.status === "in_progress").length ?? 0;
      most = Math.max(most, running);
      return false;
    });
    expect(tasksOf(simulation).map(({ type, state }) => [type, state])).toEqual([
      ["k8s_resources", "done"],
      ["middleware_config", "done"],
      ["storage_volume", "done"],
      ["version_upgrade", "done"],
    ]);
    expect(most).toBe(1);
    expect(simulation.events.filter((event) => event.reason === "TaskDone")).toHaveLength(5);
  });

  it("warns while persistence is off", async () => {
    const simulation = await provisioned();
    const warning = () => simulation.status().conditions?.find(({ type }) => type === "Warning");
    expect(warning()).toBeUndefined();
    simulation.change({ config: { maxmemory: "64mb", databases: "16", appendonly: "no", save: "" } });
    await simulation.run();
    expect(warning()).toMatchObject({ status: "True", message: expect.stringContaining("persistence is off") });
    simulation.change({ config: { maxmemory: "64mb", databases: "16", appendonly: "yes" } });
    await simulation.run();
    expect(warning()).toMatchObject({ status: "False" });
  });

  it("changes TLS mode by mode with one predicted rolling restart each, and rejects what would separate the Pods", async () => {
    const simulation = await provisioned();
    const accepted = () => simulation.status().conditions?.find(({ type }) => type === "Accepted");
    const portsOf = (service: string) =>
      (simulation.store.get("Service", service)?.spec as { ports: { name: string }[] } | undefined)?.ports.map(
        ({ name }) => name,
      );
    const modes: unknown[] = [];
    for (const [mode, ports] of [
      ["require", ["redis"]],
      ["prefer", ["redis", "redis-tls"]],
      ["require", ["redis-tls"]],
      ["disabled", ["redis-tls"]],
      ["prefer", ["redis", "redis-tls"]],
      ["disabled", ["redis"]],
    ] as const) {
      simulation.change({ tls: { mode } });
      await simulation.run();
      expect(portsOf("cache-redis-nodes-primary")).toEqual(ports);
      const { plan } = simulation.status();
      modes.push(
        accepted()?.status === "True" ? plan?.tasks.map(({ predicted, status }) => [status, predicted]) : accepted()?.message,
      );
      if (accepted()?.status === "True") expect(plan?.report?.asPredicted).toBe(true);
    }
    const rolling = [["done", { restarts: 3, switchovers: 1 }]];
    const rejected = (from: string, to: string): unknown =>
      expect.stringContaining(`spec.tls.mode: must not change from ${from} to ${to}: change it to prefer first`);
    expect(modes).toEqual([
      rejected("disabled", "require"),
      rolling,
      rolling,
      rejected("require", "disabled"),
      rolling,
      rolling,
    ]);
    simulation.change({ tls: { mode: "prefer" } });
    await simulation.run();
    simulation.change({ tls: { mode: "prefer", secretName: "own" } });
    await simulation.run();
    expect(accepted()?.message).toContain("spec.tls.secretName: must not change while TLS is in use");
  });

  it("runs the upgrade first with p0-first", async () => {
    const simulation = await provisioned(undefined, { changePolicy: { order: "p0-first" } });
    simulation.change({ runtime: { name: "redis", version: "7.2" }, ...hot("96mb") });
    await simulation.run();
    expect(tasksOf(simulation).map(({ type }) => type)).toEqual(["version_upgrade", "middleware_config"]);
  });

  it("upgrades replicas first, and the primary after the switchover", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    simulation.change({ runtime: { name: "redis", version: "7.2" } });
    await simulation.run();
    expect(hasRestarted(simulation, from)).toEqual(["2", "1", "0"]);
    const commands = simulation.redis.commands.slice(from).map(({ pod, command }) => `${pod.slice(-1)} ${command}`);
    const promoted = commands.findIndex((each) => each.endsWith("promoted"));
    expect(promoted).toBeGreaterThan(0);
    expect(commands.indexOf("0 stops")).toBeGreaterThan(promoted);
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ currentVersion: "7.2" });
  });

  it("changes no Pod below the partition, predicts that, and upgrades the rest after a switchover when it is lowered", async () => {
    const simulation = await provisioned();
    const start = simulation.redis.commands.length;
    const partition = (ordinal: number) => nodes({ replicas: 3, ...size, rollingUpdate: { partition: ordinal } });
    simulation.change({ components: partition(1), runtime: { name: "redis", version: "7.2" } });
    await simulation.run();
    expect(hasRestarted(simulation, start)).toEqual(["2", "1"]);
    const held = { predicted: { restarts: 2, switchovers: 0 }, observed: { restarts: 2, switchovers: 0 }, asPredicted: true };
    expect(simulation.status().plan).toMatchObject({ outcome: "Succeeded", report: held });
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({
      updatedReplicas: 2,
      readyReplicas: 3,
      currentVersion: "7.0",
    });

    const lowered = simulation.redis.commands.length;
    simulation.change({ components: partition(0) });
    await simulation.run();
    expect(hasRestarted(simulation, lowered)).toEqual(["0"]);
    const rest = { predicted: { restarts: 1, switchovers: 1 }, observed: { restarts: 1, switchovers: 1 }, asPredicted: true };
    expect(simulation.status().plan).toMatchObject({ outcome: "Succeeded", report: rest });
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ updatedReplicas: 3, currentVersion: "7.2" });
  });

  it("defers a spec change until it has finished, then plans again", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(
      () => simulation.status().plan?.generation === 2 && simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2",
    );
    simulation.change(hot("80mb"));
    simulation.change({ ...hot("96mb") });
    await simulation.run(() => annotationsOf(simulation)[annotations.pendingChange] === "true");
    expect(simulation.status()).toMatchObject({ acceptedGeneration: 2, pendingGeneration: 4 });
    await simulation.run();
    expect(simulation.status()).toMatchObject({ acceptedGeneration: 4, phase: "Running", plan: { outcome: "Succeeded" } });
    expect(simulation.status()).not.toHaveProperty("pendingGeneration");
    expect(annotationsOf(simulation)).not.toHaveProperty(annotations.pendingChange);
    // The second edit wins; the first one is never applied.
    expect(simulation.status().plan?.tasks[0]?.description).toContain("maxmemory 64mb -> 96mb");
  });

  it("stops all Pods with the primary last, keeps the volumes, and restarts with the same data", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    simulation.change({ stopped: true });
    await simulation.run();
    const stops = simulation.redis.commands.slice(from).filter((each) => each.command === "stops");
    expect(stops.map((each) => each.pod.slice(-1))).toEqual(["2", "1", "0"]);
    expect(simulation.status().phase).toBe("Stopped");
    expect(simulation.store.all("PersistentVolumeClaim")).toHaveLength(3);
    const acknowledged = simulation.redis.acknowledgedBy("cache-redis-nodes");
    simulation.change({ stopped: false });
    await simulation.run();
    expect(simulation.status().phase).toBe("Running");
    expect(simulation.redis.writesOf("cache-redis-nodes-0")).toBeGreaterThanOrEqual(acknowledged);
  });

  it("hands the primary role over before it removes the primary's Pod", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run();
    // The primary is not Pod 0 any more: scaling in to one removes it.
    expect(simulation.store.all("Group")[0]?.status).not.toMatchObject({ primary: { pod: "cache-redis-nodes-0" } });
    simulation.change({ components: nodes({ replicas: 1, ...size }) });
    await simulation.run();
    expect(simulation.store.all("Pod").map((pod) => pod.metadata.name)).toEqual(["cache-redis-nodes-0"]);
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ primary: { pod: "cache-redis-nodes-0" } });
    expect(simulation.redis.writesOf("cache-redis-nodes-0")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  });
});

describe("several components and groups", { timeout: 60_000 }, () => {
  const two = (orders: string) => (document: string) =>
    document
      .replace(
        "    - name: redis\n      groups:\n",
        "    - name: other\n      groups:\n        - {name: nodes, replicas: 1, storage: {size: 1Gi}}\n    - name: redis\n      groups:\n        - {name: spare, replicas: 1, storage: {size: 1Gi}}\n",
      )
      .replace(/ {2}orders:\n(?: {4}.*\n)*/, orders);

  it("change in the plugin's order for the scenario", async () => {
    const simulation = await provisioned(two("  orders:\n    provision: [redis, other]\n    update: [other, redis]\n"));
    expect(simulation.status().plan?.tasks.map((task) => task.targetComponent)).toEqual(["redis", "other"]);
    expect(simulation.status().plan?.tasks[1]?.dependencies).toEqual(["task-1-01"]);
    simulation.change(hot("96mb"));
    await simulation.run();
    expect(simulation.status().plan?.tasks.map((task) => [task.targetComponent, task.status])).toEqual([
      ["other", "done"],
      ["redis", "done"],
    ]);
  });

  it("change concurrently without an order", async () => {
    const simulation = await provisioned(two("  orders: {}\n"));
    simulation.change(hot("96mb"));
    let most = 0;
    await simulation.run(() => {
      most = Math.max(most, simulation.status().plan?.tasks.filter((task) => task.status === "in_progress").length ?? 0);
      return false;
    });
    expect(most).toBe(2);
    expect(simulation.status().phase).toBe("Running");
  });

  it("change one group after another, in the order reported by a Pod", async () => {
    const simulation = await provisioned(two("  orders: {}\n"));
    const from = simulation.redis.commands.length;
    simulation.change(hot("96mb"));
    await simulation.run();
    const reloads = simulation.redis.commands
      .slice(from)
      .flatMap(({ pod, command }) => (command === "reloads" && pod.startsWith("cache-redis") ? [pod] : []));
    // For spare and nodes, the agent returns the reverse order.
    expect(reloads).toEqual(["cache-redis-nodes-2", "cache-redis-nodes-1", "cache-redis-nodes-0", "cache-redis-spare-0"]);
  });

  it("change one by one with the primary last if the reported order is invalid", async () => {
    for (const order of [[], ["cache-redis-nodes-0"], ["a", "b", "c"]]) {
      const simulation = await provisioned();
      simulation.redis.answers = (call) => (call.method === "GetPodOrder" ? { kind: "order", order } : undefined);
      const from = simulation.redis.commands.length;
      simulation.change(coldChange);
      await simulation.run();
      expect(hasRestarted(simulation, from)).toEqual(["2", "1", "0"]);
    }
  });
});

describe("randomness", { timeout: 60_000 }, () => {
  /** A deterministic random number generator (xorshift32). */
  const seeded = (seed: number) => {
    let state = seed;
    return () => {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      return (state >>> 0) / 2 ** 32;
    };
  };

  it.each([1, 2, 3, 5, 8, 13, 21, 34])("in the order of steps does not change the final state (seed %i)", async (seed) => {
    const simulation = createSimulation({ random: seeded(seed) });
    simulation.create(spec);
    await simulation.run();
    simulation.change({ ...coldChange, components: nodes({ replicas: 4, storage: { size: "96Mi" } }) });
    await simulation.run();
    expect(simulation.status()).toMatchObject({ phase: "Running", plan: { outcome: "Succeeded" } });
    const primary = (simulation.store.all("Group")[0]?.status as { primary?: { pod: string } } | undefined)?.primary?.pod ?? "";
    expect(simulation.redis.writesOf(primary)).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
    expect(simulation.errors).toEqual([]);
  });
});
