import { describe, expect, it } from "vitest";
import { annotations } from "./api/names.ts";
import { coldChange, hasRestarted, hot, provisioned, tasksOf } from "./testing/simulated-app.ts";
import { type Simulation } from "./testing/simulation.ts";

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
