import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import type { Client } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import type { ScriptedAgent } from "./testing/scripted-agent.ts";

let robots: RobotsEnvironment;
let client: Client;
let clock: VirtualClock;

beforeEach(async () => {
  clock = createVirtualClock();
  robots = await RobotsEnvironment.start({ clock });
  client = robots.client;
});

afterEach(() => robots[Symbol.asyncDispose]());

async function robot(robotId: string, extra: Record<string, unknown> = {}): Promise<ScriptedAgent> {
  const agent = await robots.connect({ robotId });
  await agent.register({ features: ["leases"], ...extra });
  await robots.online(robotId);
  return agent;
}

const disconnect = { lostAfter: "10s", onRobot: "stop" as const };
const exclusive = {
  metadata: { name: "arm", namespace },
  spec: { name: "arm", driver: "exec" as const, config: { execConfig: { command: "/bin/true" } }, disconnect },
};

it("moves an exclusive task once its robot's lease has expired, and the returning robot removes it", async () => {
  const one = await robot("robot-001");
  const task = await client.create(Task, exclusive);
  const uid = task.metadata.uid ?? "";
  const { task: dispatched } = await one.dispatched();
  expect(dispatched.status?.lease?.attempt).toBe(1);
  const held = { taskUid: uid, attempt: 1 };
  expect(await one.requestLeases("first", [held])).toEqual({ nonce: "first", granted: [held], refused: [] });
  await one.report({ uid, attempt: 1, seq: 1 }, "running");
  await watched(client, Task, "arm", (each) => each?.status?.state === "running");
  const two = await robot("robot-002");

  await one.leave(false);
  const lost = await watched(
    client,
    Task,
    "arm",
    (each) => each?.status?.message?.includes("moves to another robot at 2026-01-01T00:00:20") === true,
  );
  expect(lost?.status?.message).toMatch(
    /^unknown since 2026-01-01T00:00:00Z: robot-001: .*when the robot's lease has expired$/,
  );
  await clock.advance(20_099);
  expect(two.dispatches).toEqual([]);
  await clock.advance(1);
  const { task: moved } = await two.dispatched();
  expect(moved.status).toMatchObject({ attempt: 2, moves: 1, movedFrom: "robot-001", lease: { attempt: 2 } });

  robots.forget(one);
  const back = await robot("robot-001", { tasks: [held] });
  expect((await back.dispatched()).action).toBe("delete");
  expect(await back.requestLeases("late", [held])).toEqual({ nonce: "late", granted: [], refused: [held] });
  const second = { taskUid: uid, attempt: 2 };
  expect(await two.requestLeases("second", [second])).toMatchObject({ granted: [second] });
});

it("does not move the task of an agent that does not enforce leases", async () => {
  const original = await robot("robot-001", { features: undefined });
  await robot("robot-002");
  await client.create(Task, {
    ...exclusive,
    spec: {
      ...exclusive.spec,
      targetRobot: undefined,
      constraints: [{ lTarget: "${robot.id}", operand: "=" as const, rTarget: "robot-001" }],
    },
  });
  const { task } = await original.dispatched();
  expect(task.status?.lease).toBeUndefined();
  await original.leave(false);
  robots.forget(original);
  const lost = await watched(client, Task, "arm", (each) => each?.status?.reason === "RobotNotReporting");
  expect(lost?.status?.message).toContain("not moved to another robot because the agent of robot-001 does not enforce leases");
});

it("drains a robot: its task starts on another one once the robot has confirmed its removal", async () => {
  const one = await robot("robot-001");
  const { disconnect: _, ...spec } = exclusive.spec;
  await client.create(Task, { ...exclusive, spec });
  const { task } = await one.dispatched();
  const uid = task.metadata.uid ?? "";
  await one.report({ uid, attempt: 1, seq: 1 }, "running");
  const two = await robot("robot-002");
  const drain = { spec: { unschedulable: true, drain: {} } };
  await client.patch(Robot, { namespace, name: "robot-001" }, { type: "merge", body: drain });
  await one.dispatched(({ action }) => action === "delete");
  await watched(client, Task, "arm", (each) => each?.status?.message === "waits until robot-001 has stopped attempt 1");
  expect(two.dispatches).toEqual([]);
  await one.report({ uid, attempt: 1, seq: 2 }, "deleted");
  expect((await two.dispatched()).task.status).toMatchObject({ attempt: 2, movedFrom: "robot-001" });
});
