import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RobotDevice } from "./api/device.ts";
import { Robot } from "./api/robot.ts";
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

const arm = (id: string): RobotDevice => ({ id, name: "acme/arm" });

async function robot(robotId: string, devices: RobotDevice[]): Promise<ScriptedAgent> {
  const agent = await robots.connect({ robotId, deviceInfo: { devices } });
  await agent.register();
  await robots.online(robotId);
  return agent;
}

async function create(name: string, spec: Partial<Task["spec"]> = {}): Promise<void> {
  const config = { execConfig: { command: "/bin/true" } };
  const resources = { devices: [{ name: "arm" }] };
  await client.create(Task, { metadata: { name, namespace }, spec: { name, driver: "exec", config, resources, ...spec } });
}

/** Devices of the tasks that have one, once so many have. */
async function assigned(count: number): Promise<readonly string[]> {
  const list = async () => {
    const { items } = await client.list(Task, { namespace });
    return items.filter(({ status }) => status?.state === "dispatching" || status?.state === "running");
  };
  await expect.poll(async () => (await list()).length, { timeout: 60_000 }).toBe(count);
  return (await list()).flatMap(({ spec }) => (spec.targetDevices ?? []).flatMap(({ ids }) => ids)).sort();
}

it("never gives a device to two tasks, and gives it to the next one when its task has ended", async () => {
  const agent = await robot("robot-001", [arm("/dev/arm0"), arm("/dev/arm1"), { id: "/dev/lidar", name: "lidar" }]);
  const names = Array.from({ length: 6 }, (_, index) => `task-${index}`);
  await Promise.all(names.map((name) => create(name)));
  expect(await assigned(2)).toEqual(["/dev/arm0", "/dev/arm1"]);
  const waits = async (): Promise<readonly (string | undefined)[]> => {
    const { items } = await client.list(Task, { namespace });
    return items.filter(({ status }) => status?.reason === "Unschedulable").map(({ status }) => status?.message);
  };
  const message = "0/1 robots fit: 1 short of the device arm (requested 1, available 0 of 2)";
  await expect.poll(waits, { timeout: 60_000 }).toEqual([message, message, message, message]);

  const first = (await agent.dispatched()).task.metadata;
  const second = (await agent.dispatched(({ task }) => task.metadata.uid !== first.uid)).task.metadata;
  await agent.report({ uid: first.uid ?? "", attempt: 1, seq: 1 }, "completed");
  const next = await agent.dispatched(({ task: { metadata } }) => metadata.uid !== first.uid && metadata.uid !== second.uid);
  expect(next.task.spec).toMatchObject({ targetDevices: [{ name: "arm", ids: [expect.stringMatching(/^.dev.arm[01]$/)] }] });
  expect(await assigned(2)).toEqual(["/dev/arm0", "/dev/arm1"]);
});

it("places a waiting task when its device is plugged in", async () => {
  const agent = await robot("robot-001", []);
  await create("move");
  const waiting = await watched(client, Task, "move", (each) => each?.status?.reason === "Unschedulable");
  expect(waiting?.status?.message).toBe("0/1 robots fit: 1 without the device arm");
  await agent.heartbeat({ deviceInfo: { devices: [arm("/dev/arm7")] } });
  expect((await agent.dispatched()).task.spec).toMatchObject({ targetDevices: [{ name: "arm", ids: ["/dev/arm7"] }] });
  const stored = await client.get(Robot, { namespace, name: "robot-001" });
  expect(stored.status?.deviceInfo?.devices).toEqual([arm("/dev/arm7")]);
});

it("replaces devices that a user has named in a task", async () => {
  const agent = await robot("robot-001", [arm("/dev/arm0")]);
  await create("named", { targetDevices: [{ name: "arm", ids: ["/dev/sda"] }] });
  expect((await agent.dispatched()).task.spec).toMatchObject({ targetDevices: [{ name: "arm", ids: ["/dev/arm0"] }] });
  await create("unrequested", { resources: {}, targetDevices: [{ name: "arm", ids: ["/dev/sda"] }] });
  const { task } = await agent.dispatched((each) => each.task.metadata.name === "unrequested");
  expect(task.spec).toMatchObject({ targetDevices: [] });
});
