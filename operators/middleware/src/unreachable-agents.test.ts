import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { Group } from "./api/group.ts";
import { coldChange, hasRestarted, provisioned, tasksOf } from "./testing/simulated-app.ts";
import type { Simulation } from "./testing/simulation.ts";

const upgrade = { runtime: { name: "redis", version: "7.2" }, changePolicy: { timeout: "1h", maxRetries: 0 } };
const pods = ["cache-redis-nodes-0", "cache-redis-nodes-1", "cache-redis-nodes-2"];
const messageOf = ({ store }: Simulation) =>
  (store.get("Group", "cache-redis-nodes") as DeepReadonly<Group>).status?.operation?.message ?? "";

describe("a change while agents do not respond", { timeout: 60_000 }, () => {
  it("restarts nothing while no agent responds, and continues with the primary last when they do", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    for (const pod of pods) simulation.redis.freeze(pod);
    simulation.change(upgrade);
    await simulation.run(() => messageOf(simulation) === `${pods[2]} is not restarted while its agent does not respond`);
    await simulation.run(() => tasksOf(simulation)[0]?.state === "cancelling");
    expect(simulation.status().plan?.tasks[0]?.error).toContain("not finished within 1h");
    expect(simulation.store.all("Pod").map(({ metadata }) => metadata.deletionTimestamp)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    for (const pod of pods) simulation.redis.thaw(pod);
    await simulation.run();
    simulation.change({ ...upgrade, changePolicy: { timeout: "2h" } });
    await simulation.run();
    expect(tasksOf(simulation)).toMatchObject([{ state: "done" }]);
    expect(hasRestarted(simulation, from)).toEqual(["2", "1", "0"]);
    expect(simulation.redis.writesOf(pods[1] ?? "")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  });

  it("replaces Pods whose programs do not start one at a time, the primary last", async () => {
    const simulation = await provisioned();
    const from = simulation.redis.commands.length;
    for (const pod of pods) {
      simulation.redis.kill(pod);
      const state = { waiting: { reason: "CrashLoopBackOff" } };
      simulation.store.edit("Pod", pod, (each) => ({
        ...each,
        status: { ...each.status, containerStatuses: [{ name: "redis", restartCount: 1, state }] },
      }));
    }
    simulation.change(coldChange);
    await simulation.run();
    expect(hasRestarted(simulation, from)).toEqual(["2", "1", "0"]);
    expect(simulation.status()).toMatchObject({ phase: "Running", plan: { outcome: "Succeeded" } });
    expect(simulation.redis.writesOf(pods[0] ?? "")).toBe(simulation.redis.acknowledgedBy("cache-redis-nodes"));
  });
});
