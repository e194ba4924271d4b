import { expect, it } from "vitest";
import type { Task } from "../../api/task.ts";
import { t0, taskOf } from "../../testing/objects.ts";
import { withDevices } from "./attempt-devices.ts";
import { movedStatus, reconciledStatus } from "./move-status.ts";

const devices = [{ name: "arm", ids: ["/dev/arm0"] }];
const others = [{ name: "arm", ids: ["/dev/arm9"] }];
const taskWith = (status: Task["status"], targetDevices = devices) => taskOf(status, { bound: true, spec: { targetDevices } });

it("keeps the devices of an attempt that may still run on the robot that the task leaves", () => {
  const task = taskWith({ state: "running", attempt: 1 });
  const displaced = { robot: "robot-001", attempt: 1, stop: true };
  const move = { kind: "move", from: "robot-001", why: "drained", displaced } as const;
  expect(movedStatus(task, move, t0).displaced).toEqual({ ...displaced, devices });
  const plain = taskOf({ state: "running", attempt: 1 }, { bound: true });
  expect(movedStatus(plain, move, t0).displaced).toEqual(displaced);
});

it("finds the devices of an attempt on either robot", () => {
  const displaced = { robot: "robot-000", attempt: 1, devices: others };
  const task = taskWith({ state: "running", attempt: 2, displaced });
  expect(withDevices(task, { robot: "robot-000", attempt: 1 }).devices).toEqual(others);
  expect(withDevices(task, { robot: "robot-001", attempt: 2 }).devices).toEqual(devices);
  expect(withDevices(task, { robot: "robot-002", attempt: 2 })).not.toHaveProperty("devices");
});

it("exchanges the devices when the first of two attempts is kept", () => {
  const displaced = { robot: "robot-000", attempt: 1, devices: others };
  const task = taskWith({ state: "running", attempt: 2, displaced });
  const original = { robot: "robot-000", attempt: 1 };
  const status = reconciledStatus(task, { kind: "adopt", original, stop: { robot: "robot-001", attempt: 2 } }, t0);
  expect(status.adopted).toEqual({ ...original, devices: others });
  expect(status.displaced).toEqual({ robot: "robot-001", attempt: 2, stop: true, devices });
  expect(reconciledStatus(task, { kind: "stop" }, t0).displaced).toEqual({ ...displaced, stop: true });
});
