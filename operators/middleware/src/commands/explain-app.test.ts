import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "../api/app.ts";
import { annotations } from "../api/names.ts";
import type { Component } from "../api/component.ts";
import type { Group } from "../api/group.ts";
import { coldChange, hot, provisioned } from "../testing/simulated-app.ts";
import type { Simulation } from "../testing/simulation.ts";
import { explainApp } from "./explain-app.ts";

const explain = ({ store }: Simulation) =>
  explainApp(
    store.get("App", "cache") as DeepReadonly<App>,
    store.all("Component") as readonly DeepReadonly<Component>[],
    store.all("Group") as readonly DeepReadonly<Group>[],
  );

describe("the explanation of an App", { timeout: 60_000 }, () => {
  it("is empty while nothing is waited for", async () => {
    expect(explain(await provisioned())).toEqual([]);
  });

  it("leads from the task to the Pod, and names tasks and changes that wait", async () => {
    const simulation = await provisioned();
    simulation.change({ ...coldChange, runtime: { name: "redis", version: "7.2" } });
    await simulation.run(() => simulation.actions.at(-1) === "delete Pod cache-redis-nodes-2");
    simulation.change({ config: { maxmemory: "96mb", databases: "32" }, runtime: { name: "redis", version: "7.2" } });
    await simulation.run(() => {
      const group = simulation.store.get("Group", "cache-redis-nodes") as DeepReadonly<Group>;
      return simulation.status().pendingGeneration === 3 && group.status?.readyReplicas === 2;
    });
    const found = explain(simulation);
    expect(found.map(({ subject, reason }) => `${subject} ${reason}`)).toEqual([
      "task-2-01 Running",
      "task-2-02 EarlierStage",
      "generation 3 PlanActive",
      "Component cache-redis Running",
      "Group cache-redis-nodes Running",
      "Group cache-redis-nodes PodsNotReady",
    ]);
    expect(found[1]?.message).toBe("waits for task-2-01");
    expect(found[2]).toMatchObject({
      message: "waits for plan-2-01 to finish: redis: maxmemory 64mb -> 96mb",
      next: "keelson app cancel cache",
    });
    expect(found.at(-1)?.message).toMatch(/^2 of 3 Pods are ready: cache-redis-nodes-/);
  });

  it("names the failure, its reason and the retry", async () => {
    const simulation = await provisioned();
    simulation.change(hot("nonsense"));
    await simulation.run();
    expect(explain(simulation)).toMatchObject([
      {
        subject: "task-2-01",
        reason: "Failed",
        message: expect.stringContaining("rejected the parameters"),
        next: "keelson app retry cache task-2-01",
      },
    ]);
  });

  it("names an approval, a spec that is not valid, and an operator that is away", async () => {
    const simulation = await provisioned(undefined, { changePolicy: { approval: "manual" } });
    simulation.change(hot("96mb"));
    await simulation.run();
    expect(explain(simulation)).toMatchObject([
      { subject: "plan-2-01", reason: "ApprovalRequired", next: "keelson app approve cache plan-2-01" },
    ]);
    simulation.annotate({ [annotations.approve]: "plan-2-01" });
    await simulation.run();
    simulation.change({ runtime: { name: "redis", version: "5" } });
    expect(explain(simulation)).toMatchObject([{ reason: "NotObserved" }]);
    await simulation.run();
    expect(explain(simulation)).toMatchObject([
      { subject: "App cache", reason: "Invalid", message: expect.stringContaining("spec.runtime.version") },
    ]);
  });

  it("names what a deletion waits for, and no command that would have no effect", async () => {
    const simulation = await provisioned(undefined, { deletionPolicy: "Snapshot" });
    simulation.annotate({ [annotations.paused]: "true" });
    simulation.change(hot("96mb"));
    await simulation.run();
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    simulation.store.edit("App", "cache", (app) => ({ ...app, metadata: { ...app.metadata, deletionTimestamp } }));
    await simulation.run();
    expect(explain(simulation)).toEqual([
      { subject: "App cache", reason: "Deleting", message: expect.stringMatching(/^waiting for the last Backup cache-last-/) },
    ]);
  });
});
