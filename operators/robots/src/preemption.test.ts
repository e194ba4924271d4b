import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { Event } from "@keelson/api-machinery/kinds";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Task } from "./api/task.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import type { ScriptedAgent } from "./testing/scripted-agent.ts";

let robots: RobotsEnvironment;
let client: Client;

beforeEach(async () => {
  robots = await RobotsEnvironment.start();
  client = robots.client;
});

afterEach(() => robots[Symbol.asyncDispose]());

async function robot(robotId: string): Promise<ScriptedAgent> {
  const agent = await robots.connect({ robotId, deviceInfo: { cpu: { logicalCores: 1 } } });
  await agent.register({ features: ["leases"] });
  await robots.online(robotId);
  return agent;
}

async function create(name: string, spec: Partial<Task["spec"]>): Promise<string> {
  const config = { execConfig: { command: "/bin/true" } };
  const task = await client.create(Task, {
    metadata: { name, namespace },
    spec: { name, driver: "exec", config, resources: { cpu: "1000m" }, ...spec },
  });
  return task.metadata.uid ?? "";
}

async function running(agent: ScriptedAgent, name: string, spec: Partial<Task["spec"]> = {}): Promise<string> {
  const uid = await create(name, spec);
  await agent.dispatched(({ task }) => task.metadata.uid === uid);
  await agent.report({ uid, attempt: 1, seq: 1 }, "running");
  await watched(client, Task, name, (each) => each?.status?.state === "running");
  return uid;
}

const isStop = ({ action }: { readonly action: string }): boolean => action === "delete";

it("stops a task of lower priority, and starts the other one when the robot has confirmed that", async () => {
  const agent = await robot("robot-001");
  const low = await running(agent, "low", { priority: 20 });
  const high = await create("high", { priority: 80, preemptionPolicy: "PreemptLowerPriority" });
  const stop = await agent.dispatched(isStop);
  expect(stop.task.metadata.uid).toBe(low);
  const waiting = await watched(client, Task, "high", (each) => each?.status?.reason === "Preempting");
  expect(waiting?.status?.message).toBe("waits for room on robot-001: stops low (priority 20)");
  expect(waiting?.status?.preemption).toEqual({ robot: "robot-001", tasks: [{ name: "low", uid: low, attempt: 1 }] });
  const stopped = await watched(client, Task, "low", (each) => each?.status?.state === "pending");
  expect(stopped?.status?.conditions?.find(({ type }) => type === "Preempted")).toMatchObject({
    status: "True",
    reason: "HigherPriority",
    message: "moved from robot-001: preempted by the task high (priority 80, this task 20)",
  });
  expect(agent.dispatches.some(({ task }) => task.metadata.uid === high)).toBe(false);
  const noted = async (): Promise<readonly (string | undefined)[]> =>
    (await client.list(Event, { namespace })).items.map(({ reason, message }) => `${reason}: ${message}`);
  await expect
    .poll(noted, { timeout: 30_000 })
    .toEqual(
      expect.arrayContaining([
        "Preempting: waits for room on robot-001: stops low (priority 20)",
        "Preempted: moving from robot-001: preempted by the task high (priority 80, this task 20)",
      ]),
    );

  // Everything that a restarted operator needs is stored.
  await robots.stopOperator();
  robots.forget(agent);
  await robots.startOperator();
  const back = await robot("robot-001");
  await back.dispatched(isStop);
  expect(back.dispatches.some(({ task }) => task.metadata.uid === high)).toBe(false);
  await back.report({ uid: low, attempt: 1, seq: 2 }, "deleted");
  await back.dispatched(({ task }) => task.metadata.uid === high);
  const placed = await watched(client, Task, "high", (each) => each?.status?.state === "dispatching");
  expect(placed?.status?.preemption).toBeUndefined();
  await back.report({ uid: high, attempt: 1, seq: 1 }, "running");
  await back.report({ uid: high, attempt: 1, seq: 2 }, "completed", { exitCode: 0 });
  const again = await back.dispatched(({ action, task }) => action === "create" && task.metadata.uid === low);
  expect(again.task.status).toMatchObject({ attempt: 2, moves: 1 });
  const resumed = await watched(client, Task, "low", (each) => each?.status?.state === "dispatching");
  expect(resumed?.status?.conditions?.find(({ type }) => type === "Preempted")?.status).toBe("False");
});

it("releases a task that is deleted before its robot has confirmed the stop, and places the other one", async () => {
  const agent = await robot("robot-001");
  const low = await running(agent, "low", { priority: 20 });
  const high = await create("high", { priority: 80, preemptionPolicy: "PreemptLowerPriority" });
  await agent.dispatched(isStop);
  await client.delete(Task, { namespace, name: "low" });
  await watched(client, Task, "low", (each) => each?.metadata.deletionTimestamp !== undefined);
  await agent.report({ uid: low, attempt: 1, seq: 2 }, "deleted");
  await watched(client, Task, "low", (each) => each === undefined);
  await agent.dispatched(({ task }) => task.metadata.uid === high);
});

it("stops a task that was created at the same time", async () => {
  const agent = await robot("robot-001");
  const [low, high] = await Promise.all([
    create("low", { priority: 20 }),
    create("high", { priority: 80, preemptionPolicy: "PreemptLowerPriority" }),
  ]);
  await agent.dispatched(({ task }) => task.metadata.uid === high || task.metadata.uid === low);
  if (agent.dispatches[0]?.task.metadata.uid === low) {
    await agent.dispatched(isStop);
    await agent.report({ uid: low, attempt: 1, seq: 1 }, "deleted");
  }
  await agent.dispatched(({ task }) => task.metadata.uid === high);
});

it("stops a task whose priority is lowered", async () => {
  const agent = await robot("robot-001");
  await running(agent, "low", { priority: 50 });
  await create("high", { priority: 55, preemptionPolicy: "PreemptLowerPriority" });
  await watched(client, Task, "high", (each) => each?.status?.reason === "Unschedulable");
  const body = { spec: { priority: 40 } };
  await client.patch(Task, { namespace, name: "low" }, { type: "merge", body }, { fieldManager: "test" });
  await agent.dispatched(isStop);
  await watched(client, Task, "high", (each) => each?.status?.reason === "Preempting");
});

it("stops nothing for a task that may not preempt, or whose priority is not higher by 10", async () => {
  const agent = await robot("robot-001");
  await running(agent, "low", { priority: 50 });
  await create("never", { priority: 90 });
  await create("close", { priority: 59, preemptionPolicy: "PreemptLowerPriority" });
  for (const name of ["never", "close"]) {
    const waiting = await watched(client, Task, name, (each) => each?.status?.state === "pending");
    expect(waiting?.status).toMatchObject({ reason: "Unschedulable" });
  }
  expect(agent.dispatches.filter(isStop)).toEqual([]);
});

it("does not stop pinned tasks", async () => {
  const agent = await robot("robot-001");
  await running(agent, "low", { priority: 0, targetRobot: "robot-001" });
  await create("high", { priority: 90, preemptionPolicy: "PreemptLowerPriority" });
  const waiting = await watched(client, Task, "high", (each) => each?.status?.state === "pending");
  expect(waiting?.status?.reason).toBe("Unschedulable");
});

it("gives reserved room to no other task, and places waiting tasks by their priority", async () => {
  const agent = await robot("robot-001");
  const first = await running(agent, "first", { priority: 50 });
  const names = ["p10", "p40", "p30", "p20"];
  const uids = new Map<string, string>();
  for (const name of names) {
    uids.set(name, await create(name, { priority: Number(name.slice(1)) }));
    await watched(client, Task, name, (each) => each?.status?.reason === "Unschedulable");
  }
  let current = first;
  for (const name of ["p40", "p30", "p20", "p10"]) {
    await agent.report({ uid: current, attempt: 1, seq: 2 }, "completed", { exitCode: 0 });
    current = uids.get(name) ?? "";
    await agent.dispatched(({ task }) => task.metadata.uid === current);
    await agent.report({ uid: current, attempt: 1, seq: 1 }, "running");
  }
});
