import { describe, expect, it } from "vitest";
import { annotations } from "./api/names.ts";
import { createSimulation, type Simulation } from "./testing/simulation.ts";

const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
const size = { storage: { size: "64Mi" } };
const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { maxmemory: "64mb", databases: "16" },
  components: nodes({ replicas: 3, ...size }),
};
const hot = (maxmemory: string) => ({ config: { maxmemory, databases: "16" } });
const coldChange = { config: { maxmemory: "64mb", databases: "32" } };

async function provisioned(plugin?: (document: string) => string, more: object = {}): Promise<Simulation> {
  const simulation = createSimulation(plugin ? { plugin } : {});
  simulation.create({ ...spec, ...more });
  await simulation.run();
  expect(simulation.status().phase).toBe("Running");
  return simulation;
}

const tasksOf = ({ status }: Simulation) =>
  (status().plan?.tasks ?? []).map(({ taskId, type, status: state, reason }) => ({ taskId, type, state, reason }));
const results = ({ store }: Simulation): readonly { taskId: string; result: string }[] =>
  JSON.parse(store.get("App", "cache")?.metadata.annotations?.[annotations.controlResult] ?? '{"results":[]}').results;
const annotationsOf = ({ store }: Simulation) => store.get("App", "cache")?.metadata.annotations ?? {};
const hasRestarted = (simulation: Simulation, from: number) =>
  simulation.redis.commands
    .slice(from)
    .filter((each) => each.command === "starts")
    .map((each) => each.pod.slice(-1));

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

describe("a task that fails", { timeout: 60_000 }, () => {
  it("is retried after 1, 2 and 4 s if an agent is not ready, and names the step", async () => {
    const simulation = await provisioned();
    simulation.redis.answers = (call) =>
      call.method === "Failover" ? { kind: "refused", message: "the target is not in sync" } : undefined;
    const started: number[] = [];
    simulation.change(coldChange);
    await simulation.run(() => {
      const task = simulation.status().plan?.tasks[0];
      if (task?.status === "in_progress" && started.length < task.attempt && task.scenario === "update")
        started.push(simulation.clock.now());
      return false;
    });
    const [task] = simulation.status().plan?.tasks ?? [];
    expect(task).toMatchObject({ status: "failed", retryCount: 3, attempt: 4, errorClass: "AgentPrecondition" });
    expect(task?.error).toContain("the switchover was refused: the target is not in sync");
    expect(started.slice(1).map((at, index) => at - (started[index] ?? 0))).toEqual([1_000, 2_000, 4_000]);
    // No replica was promoted, and the primary was not touched.
    expect(simulation.redis.commands.filter((each) => each.command === "promoted")).toHaveLength(1);
    expect(simulation.status()).toMatchObject({ phase: "Degraded" });
    expect(simulation.status().conditions?.find((each) => each.type === "Synced")).toMatchObject({
      status: "False",
      reason: "TaskFailed",
    });
    expect(simulation.events.find((event) => event.reason === "TaskFailed")?.note).toContain("task-2-01: ");
  });

  it("is not retried if the program rejects the parameter, and is reverted", async () => {
    const simulation = await provisioned();
    simulation.change(hot("nonsense"));
    await simulation.run();
    const [task] = simulation.status().plan?.tasks ?? [];
    expect(task).toMatchObject({ status: "failed", attempt: 1, retryCount: 0, errorClass: "Config" });
    expect(task?.error).toContain("rejected the parameters: maxmemory nonsense");
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("64mb"));
    expect(simulation.store.all("Pod")).toHaveLength(3);
  });

  it("is reverted with the last output of a program that does not start, and only the canary was restarted", async () => {
    const simulation = await provisioned();
    simulation.crashes = ({ databases }) => (databases === "-4" ? "*** FATAL ***\n>>> 'databases \"-4\"'" : undefined);
    const from = simulation.redis.commands.length;
    simulation.change({ config: { maxmemory: "64mb", databases: "-4" } });
    await simulation.run();
    const [task] = simulation.status().plan?.tasks ?? [];
    expect(task).toMatchObject({ status: "failed", errorClass: "Config", attempt: 1 });
    expect(task?.error).toBe(
      "nodes-2 does not start: *** FATAL ***; >>> 'databases \"-4\"'".replace("nodes-2", "cache-redis-nodes-2"),
    );
    expect(hasRestarted(simulation, from)).toEqual(["2"]);
    expect(simulation.redis.commands.slice(from).filter(({ command }) => command === "promoted")).toEqual([]);
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ readyReplicas: 3 });
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("64mb"));
  });

  it("is an upgrade that did not happen: the installed program still reports the old version", async () => {
    const simulation = await provisioned();
    simulation.redis.installedVersion = "7.0.15";
    const from = simulation.redis.commands.length;
    simulation.change({ runtime: { name: "redis", version: "7.2" } });
    await simulation.run();
    expect(simulation.status().plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Config" });
    expect(simulation.status().plan?.tasks[0]?.error).toContain("requested redis 7.2, but the program reports version 7.0.15");
    expect(simulation.status().version).toBe("7.0.15");
    expect(simulation.redis.commands.slice(from).filter(({ command }) => command === "promoted")).toEqual([]);
    // Keeping the running version is not a downgrade.
    simulation.change({ runtime: { name: "redis", version: "7.0" } });
    await simulation.run();
    expect(simulation.status()).toMatchObject({ phase: "Running", version: "7.0.15" });
  });

  it("does not make a healthy App unready, nor does a cancelled or rejected change", async () => {
    const isReady = ({ status }: Simulation) => status().conditions?.find(({ type }) => type === "Ready")?.status;
    const failed = await provisioned();
    failed.change(hot("nonsense"));
    await failed.run();
    expect([failed.status().phase, isReady(failed)]).toEqual(["Degraded", "True"]);
    const rejected = await provisioned();
    rejected.change({ runtime: { name: "redis", version: "6.2" } });
    await rejected.run();
    expect([rejected.status().phase, isReady(rejected)]).toEqual(["Degraded", "True"]);
    const cancelled = await provisioned();
    cancelled.change(coldChange);
    await cancelled.run(() => cancelled.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    cancelled.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await cancelled.run();
    expect([cancelled.status().plan?.outcome, isReady(cancelled)]).toEqual(["Cancelled", "True"]);
  });

  it("skips the tasks after it", async () => {
    const simulation = await provisioned();
    simulation.change({ ...hot("nonsense"), runtime: { name: "redis", version: "7.2" } });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([
      { state: "failed", reason: "Config" },
      { state: "skipped", reason: "task-2-01 is failed" },
    ]);
  });

  it("times out, is reverted, and does not continue in the background", async () => {
    const simulation = await provisioned();
    simulation.redis.answers = (call) =>
      call.method === "ReloadConfig" ? { kind: "unreachable", message: "no answer" } : undefined;
    simulation.change({ ...hot("96mb"), changePolicy: { timeout: "30s" } });
    await simulation.run(() => simulation.status().plan?.tasks[0]?.revert === true);
    simulation.redis.answers = () => undefined;
    await simulation.run();
    const [task] = simulation.status().plan?.tasks ?? [];
    expect(task).toMatchObject({ status: "failed", reason: "timeout", errorClass: "Timeout" });
    expect(task?.error).toContain("not finished within 30s: nodes: setting parameters on");
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("64mb"));
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ operation: { phase: "Succeeded" } });
  });
});

describe("users", { timeout: 60_000 }, () => {
  it("cancel a running task: it stops at a safe point, is reverted, and the next tasks are skipped", async () => {
    const simulation = await provisioned();
    simulation.change({ ...coldChange, runtime: { name: "redis", version: "7.2" } });
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "cancelled" }, { state: "skipped" }]);
    expect(simulation.status().plan?.outcome).toBe("Cancelled");
    expect(results(simulation)).toEqual([{ action: "cancel", taskId: "task-2-01", result: "cancelling" }]);
    expect(annotationsOf(simulation)).not.toHaveProperty(annotations.cancelControl);
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("64mb"));
    expect(simulation.store.get("Component", "cache-redis")?.metadata.annotations).not.toHaveProperty(
      annotations.cancelRequest,
    );
    expect(simulation.store.all("Group")[0]?.metadata.annotations).not.toHaveProperty(annotations.cancelRequest);
    // The Pod that was already down is restored.
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ phase: "Running", readyReplicas: 3 });
    expect(simulation.redis.commands.filter((each) => each.command === "promoted")).toHaveLength(1);
  });

  it("cancel a pending task immediately", async () => {
    const simulation = await provisioned();
    simulation.change({ ...coldChange, runtime: { name: "redis", version: "7.2" } });
    await simulation.run(() => simulation.status().plan?.generation === 2);
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-02"] }) });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "done" }, { state: "cancelled" }]);
  });

  it("are informed if a cancel is too late, names no task, or is malformed", async () => {
    const simulation = await provisioned();
    const cancel = async (text: string) => {
      simulation.annotate({ [annotations.cancelControl]: text });
      await simulation.run();
      expect(annotationsOf(simulation)).not.toHaveProperty(annotations.cancelControl);
      return results(simulation)[0]?.result;
    };
    expect(await cancel(JSON.stringify({ cancelTaskIds: ["task-1-01"] }))).toBe("refused: the task is done");
    expect(await cancel(JSON.stringify({ cancelTaskIds: ["task-9-01"] }))).toBe("refused: task not found in the plan");
    expect(await cancel("task-1-01")).toContain("refused: must be JSON such as");
    expect(await cancel('{"cancelTaskIds": "task-1-01"}')).toBe("refused: cancelTaskIds: must be a list of task ids");
    expect(simulation.status().phase).toBe("Running");
  });

  it("cannot revert after the switchover of an upgrade: the task fails with reason partial", async () => {
    const simulation = await provisioned();
    simulation.change({ runtime: { name: "redis", version: "7.2" } });
    await simulation.run(
      () =>
        (simulation.store.all("Group")[0]?.status as { operation?: { pointOfNoReturn?: boolean } })?.operation
          ?.pointOfNoReturn === true,
    );
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "failed", reason: "partial" }]);
    // A retry continues from there.
    simulation.annotate({ [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "done" }]);
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ currentVersion: "7.2", readyReplicas: 3 });
    expect(simulation.redis.writesOf("cache-redis-nodes-1")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  });

  it("retry a failed task once, together with the tasks skipped after it", async () => {
    const simulation = await provisioned(undefined, { changePolicy: { maxRetries: 0 } });
    simulation.redis.answers = (call) => (call.method === "Failover" ? { kind: "refused", message: "not now" } : undefined);
    simulation.change({ ...coldChange, runtime: { name: "redis", version: "7.2" } });
    await simulation.run();
    expect(tasksOf(simulation).map((task) => task.state)).toEqual(["failed", "skipped"]);
    simulation.annotate({ [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-2-02"] }) });
    await simulation.run();
    expect(results(simulation)[0]?.result).toBe("refused: task-2-01 must be retried first; set resetDependencies");
    simulation.annotate({
      [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-2-02"], resetDependencies: true }),
    });
    await simulation.run();
    // The agent still refuses: one more attempt, and no endless loop.
    expect(tasksOf(simulation).map((task) => task.state)).toEqual(["failed", "skipped"]);
    expect(simulation.status().plan?.tasks[0]?.attempt).toBe(2);
    simulation.redis.answers = () => undefined;
    simulation.annotate({
      [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-2-01", "task-2-02"] }),
    });
    await simulation.run();
    expect(tasksOf(simulation).map((task) => task.state)).toEqual(["done", "done"]);
    expect(annotationsOf(simulation)).not.toHaveProperty(annotations.retryControl);
    expect(simulation.status().phase).toBe("Running");
  });

  it("cannot replay an old spec: a retry after a spec change is refused", async () => {
    const simulation = await provisioned();
    simulation.change(hot("nonsense"));
    await simulation.run();
    simulation.change({ ...hot("96mb"), stopped: false });
    simulation.annotate({ [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(results(simulation)[0]?.result).toContain("refused: the spec has changed since");
    expect(simulation.status()).toMatchObject({ phase: "Running", plan: { generation: 3, outcome: "Succeeded" } });
  });
});

describe("a requested switchover", { timeout: 60_000 }, () => {
  const group = ({ store }: Simulation) =>
    store.all("Group")[0]?.status as { primary?: { pod: string }; switchoverControl?: { id: string; result: string } };
  const request = (simulation: Simulation, value: object): void =>
    simulation.store.edit("Group", "cache-redis-nodes", (each) => ({
      ...each,
      metadata: {
        ...each.metadata,
        annotations: { ...each.metadata.annotations, [annotations.switchoverControl]: JSON.stringify(value) },
      },
    }));

  it("hands the primary role to the requested Pod once, and loses no acknowledged write", async () => {
    const simulation = await provisioned();
    request(simulation, { id: "1", to: "cache-redis-nodes-2" });
    await simulation.run();
    expect(group(simulation)).toMatchObject({
      primary: { pod: "cache-redis-nodes-2" },
      switchoverControl: { id: "1", result: "cache-redis-nodes-2" },
    });
    expect(simulation.redis.writesOf("cache-redis-nodes-2")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
    request(simulation, { id: "2" });
    await simulation.run();
    expect(group(simulation).primary?.pod).not.toBe("cache-redis-nodes-2");
    expect(simulation.redis.commands.filter(({ command }) => command === "promoted")).toHaveLength(3);
  });

  it("is refused for an unknown Pod, for the primary itself, and if the agent refuses", async () => {
    const simulation = await provisioned();
    const resultFor = async (id: string, to?: string) => {
      request(simulation, { id, ...(to === undefined ? {} : { to }) });
      await simulation.run();
      return group(simulation).switchoverControl?.result;
    };
    expect(await resultFor("1", "other")).toBe("refused: other is not a replica in sync");
    expect(await resultFor("2", "cache-redis-nodes-0")).toBe("refused: cache-redis-nodes-0 is already the primary");
    simulation.redis.answers = (call) => (call.method === "Failover" ? { kind: "refused", message: "not now" } : undefined);
    expect(await resultFor("3")).toBe("refused: not now");
    expect(group(simulation).primary?.pod).toBe("cache-redis-nodes-0");
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
