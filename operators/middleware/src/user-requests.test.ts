import { describe, expect, it } from "vitest";
import { annotations } from "./api/names.ts";
import { annotationsOf, coldChange, hot, provisioned, results, tasksOf } from "./testing/simulated-app.ts";
import { type Simulation } from "./testing/simulation.ts";

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
