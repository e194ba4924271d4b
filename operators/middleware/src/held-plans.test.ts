import { describe, expect, it } from "vitest";
import { annotations } from "./api/names.ts";
import { annotationsOf, coldChange, hasRestarted, hot, provisioned, results, tasksOf } from "./testing/simulated-app.ts";

const upgrade = { runtime: { name: "redis", version: "7.2" } };

describe("a paused App", { timeout: 60_000 }, () => {
  it("finishes the disruption in progress, starts no other, and continues after the pause", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    simulation.change({ ...coldChange, ...upgrade });
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.annotate({ [annotations.paused]: "true" });
    await simulation.run();
    expect(hasRestarted(simulation, from)).toEqual(["2"]);
    expect(simulation.status()).toMatchObject({ phase: "Updating", message: expect.stringMatching(/^paused; task-2-01/) });
    expect(simulation.store.all("Group")[0]?.status).toMatchObject({ readyReplicas: 3, operation: { message: "paused" } });
    simulation.annotate({ [annotations.paused]: "false" });
    await simulation.run();
    expect(tasksOf(simulation).map(({ state }) => state)).toEqual(["done", "done"]);
    expect(simulation.status()).not.toHaveProperty("pausedAt");
    expect(simulation.events.map(({ reason }) => reason)).toEqual(expect.arrayContaining(["Paused", "Resumed"]));
    expect(simulation.redis.writesOf("cache-redis-nodes-1")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  });

  it("plans a change but starts no task, and takes the latest spec", async () => {
    const simulation = await provisioned();
    simulation.annotate({ [annotations.paused]: "true" });
    simulation.change(hot("80mb"));
    await simulation.run();
    expect(simulation.status()).toMatchObject({ phase: "Running", message: "paused", plan: { generation: 2 } });
    simulation.change(hot("96mb"));
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ taskId: "task-3-01", state: "pending" }]);
    expect(simulation.status()).not.toHaveProperty("pendingGeneration");
    simulation.annotate({ [annotations.paused]: "" });
    await simulation.run();
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("96mb"));
  });

  it("lets a task be cancelled and reverted", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.annotate({ [annotations.paused]: "true" });
    await simulation.run();
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "cancelled" }]);
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("64mb"));
  });
});

describe("a plan with manual approval", { timeout: 60_000 }, () => {
  const manual = { changePolicy: { approval: "manual" } };

  it("waits until it is approved, and provisions without approval", async () => {
    const simulation = await provisioned(undefined, manual);
    const before = simulation.redis.commands.length;
    simulation.change(coldChange);
    await simulation.run();
    expect(simulation.redis.commands).toHaveLength(before);
    expect(simulation.status()).toMatchObject({ phase: "Running", message: "plan-2-01 waits for approval" });
    simulation.annotate({ [annotations.approve]: "plan-1-01" });
    await simulation.run();
    expect(results(simulation)).toMatchObject([{ result: "refused: the current plan is plan-2-01" }]);
    expect(annotationsOf(simulation)).not.toHaveProperty(annotations.approve);
    simulation.annotate({ [annotations.approve]: "plan-2-01" });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "done" }]);
    expect(simulation.status().plan).toMatchObject({ approval: "Approved", outcome: "Succeeded" });
  });

  it("is replaced by the plan of a newer spec, whose approval is its own", async () => {
    const simulation = await provisioned(undefined, manual);
    simulation.change(coldChange);
    await simulation.run();
    simulation.change(hot("96mb"));
    await simulation.run();
    expect(simulation.status().plan).toMatchObject({ id: "plan-3-01", approval: "Required" });
    simulation.change(hot("64mb"));
    await simulation.run();
    // The spec is applied already: the plan that waited ends.
    expect(simulation.status()).toMatchObject({ phase: "Running", plan: { id: "plan-3-01", outcome: "Cancelled" } });
  });
});

describe("a pending change", { timeout: 60_000 }, () => {
  it("is previewed as if the current plan succeeded", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.change({ config: { maxmemory: "96mb", databases: "32" } });
    await simulation.run(() => simulation.status().pendingGeneration !== undefined);
    expect(simulation.status().pendingChanges).toEqual(["redis: maxmemory 64mb -> 96mb"]);
    await simulation.run();
    expect(simulation.status()).not.toHaveProperty("pendingChanges");
  });
});

describe("a cancelled change", { timeout: 60_000 }, () => {
  it("is not applied by an edit of something else, and is applied by a retry", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    const from = simulation.redis.commands.length;
    simulation.change({ components: [{ name: "redis", groups: [{ name: "nodes", replicas: 4, storage: { size: "64Mi" } }] }] });
    await simulation.run();
    expect(tasksOf(simulation)).toEqual([
      { taskId: "task-3-01", type: "k8s_resources", state: "done", reason: undefined },
      { taskId: "task-3-02", type: "middleware_config", state: "cancelled", reason: "suppressed" },
    ]);
    expect(hasRestarted(simulation, from)).toEqual(["3"]);
    expect(simulation.status().message).toContain("task-3-02 cancelled: cancelled as task-2-01; retry it to apply it");
    simulation.annotate({ [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-3-02"] }) });
    await simulation.run();
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(coldChange);
    expect(simulation.status()).toMatchObject({ phase: "Running", plan: { outcome: "Succeeded" } });
  });

  const four = { components: [{ name: "redis", groups: [{ name: "nodes", replicas: 4, storage: { size: "64Mi" } }] }] };

  it("is neither previewed nor part of later predictions", async () => {
    const simulation = await provisioned();
    simulation.annotate({ [annotations.paused]: "true" });
    simulation.change(four);
    await simulation.run();
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    simulation.annotate({ [annotations.paused]: "" });
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    const [suppressed, cold] = simulation.status().plan?.tasks ?? [];
    expect(suppressed).toMatchObject({ type: "k8s_resources", status: "cancelled" });
    expect(suppressed).not.toHaveProperty("predicted");
    expect(cold).toMatchObject({ predicted: { restarts: 3, switchovers: 1 } });
    simulation.change({ config: { maxmemory: "96mb", databases: "32" } });
    await simulation.run(() => simulation.status().pendingGeneration !== undefined);
    expect(simulation.status().pendingChanges).toEqual(["redis: maxmemory 64mb -> 96mb"]);
    await simulation.run();
  });

  it("needs its own approval when it is retried with manual approval", async () => {
    const simulation = await provisioned(undefined, { changePolicy: { approval: "manual" } });
    simulation.change(four);
    await simulation.run();
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    simulation.change(hot("96mb"));
    await simulation.run();
    simulation.annotate({ [annotations.approve]: "plan-3-01" });
    await simulation.run();
    expect(tasksOf(simulation).map(({ state }) => state)).toEqual(["cancelled", "done"]);
    simulation.annotate({ [annotations.retryControl]: JSON.stringify({ retryTaskIds: ["task-3-01"] }) });
    await simulation.run();
    expect(simulation.status()).toMatchObject({ message: "plan-3-01 waits for approval", plan: { approval: "Required" } });
    expect(simulation.store.all("Pod")).toHaveLength(3);
    simulation.annotate({ [annotations.approve]: "plan-3-01" });
    await simulation.run();
    expect(tasksOf(simulation).map(({ state }) => state)).toEqual(["done", "done"]);
    expect(simulation.store.all("Pod")).toHaveLength(4);
  });

  it("is forgotten when the spec asks for another value", async () => {
    const simulation = await provisioned();
    simulation.change(hot("80mb"));
    simulation.annotate({ [annotations.paused]: "true" });
    await simulation.run();
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    simulation.annotate({ [annotations.paused]: "" });
    simulation.change(hot("96mb"));
    await simulation.run();
    expect(simulation.store.get("Component", "cache-redis")?.spec).toMatchObject(hot("96mb"));
  });
});

describe("the report of a plan", { timeout: 60_000 }, () => {
  it.each([
    ["an upgrade", upgrade, { restarts: 3, switchovers: 1 }],
    ["a cold parameter", coldChange, { restarts: 3, switchovers: 1 }],
    ["a hot parameter", hot("96mb"), { restarts: 0, switchovers: 0 }],
    [
      "a larger volume",
      { components: [{ name: "redis", groups: [{ name: "nodes", replicas: 3, storage: { size: "96Mi" } }] }] },
      { restarts: 0, switchovers: 0 },
    ],
    [
      "a smaller group",
      { components: [{ name: "redis", groups: [{ name: "nodes", replicas: 1, storage: { size: "64Mi" } }] }] },
      { restarts: 0, switchovers: 0 },
    ],
    [
      "several changes",
      {
        ...upgrade,
        ...coldChange,
        components: [{ name: "redis", groups: [{ name: "nodes", replicas: 4, storage: { size: "64Mi" } }] }],
      },
      { restarts: 8, switchovers: 2 },
    ],
    ["a stop", { stopped: true }, { restarts: 0, switchovers: 0 }],
  ])("shows that %s did what was predicted", async (_, change, figures) => {
    const simulation = await provisioned();
    simulation.change(change);
    await simulation.run();
    expect(simulation.status().plan?.report).toEqual({ predicted: figures, observed: figures, asPredicted: true });
  });

  it("warns about a difference, and counts earlier attempts and the revert", async () => {
    const simulation = await provisioned();
    simulation.change(coldChange);
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.annotate({ [annotations.cancelControl]: JSON.stringify({ cancelTaskIds: ["task-2-01"] }) });
    await simulation.run();
    expect(simulation.status().plan?.report).toMatchObject({
      predicted: { restarts: 3 },
      observed: { restarts: 2, switchovers: 0 },
    });
    simulation.change(upgrade);
    await simulation.run(() => simulation.store.all("Group")[0]?.status?.restarting !== undefined);
    simulation.redis.kill("cache-redis-nodes-0");
    await simulation.run(() => simulation.store.all("Group")[0]?.status?.failover !== undefined);
    simulation.redis.restart("cache-redis-nodes-0");
    await simulation.run();
    expect(simulation.status().plan?.report?.observed).toMatchObject({ failovers: 1 });
    expect(simulation.events.filter(({ reason }) => reason === "PlanFinished").at(-1)?.note).toContain("failovers 1");
  });
});
