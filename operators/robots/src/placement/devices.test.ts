import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DeviceRequest, RobotDevice } from "../api/device.ts";
import { robotOf, taskOf } from "../testing/objects.ts";
import { demandOf } from "./demand.ts";
import { assignDevices, type DeviceLoad, noDevices } from "./devices.ts";
import { decidePlacement, isEligible, noLoad } from "./placement.ts";
import { decidePreemption } from "./preemption.ts";
import { devicesOf, loadFor } from "./robot-use.ts";

const withDevices = (devices: readonly RobotDevice[], name = "r") =>
  robotOf(name, { status: { phase: "Online", deviceInfo: { devices: [...devices] } } });
const gpu = (id: string, more: Partial<RobotDevice> = {}): RobotDevice => ({ id: `/dev/${id}`, name: "acme/gpu/x1", ...more });
const memory = (rTarget: string) => ({ lTarget: "${device.attr.memory}", operand: ">=", rTarget }) as const;

function assign(requests: readonly DeviceRequest[], devices: readonly RobotDevice[], load: Partial<DeviceLoad> = {}) {
  const assignment = assignDevices(requests, withDevices(devices), { ...noDevices, ...load });
  return assignment.kind === "assigned" ? assignment.devices.map(({ ids }) => ids.join(" ")) : assignment;
}

describe("assignDevices", () => {
  it("matches the parts of a name that the request has", () => {
    const devices = [gpu("a"), gpu("b", { name: "gpu" }), gpu("c", { name: "acme/lidar" })];
    expect(assign([{ name: "gpu", count: 2 }], devices)).toEqual(["/dev/a /dev/b"]);
    expect(assign([{ name: "acme/gpu" }], devices)).toEqual(["/dev/a"]);
    expect(assign([{ name: "acme/gpu/x1" }], devices)).toEqual(["/dev/a"]);
    expect(assign([{ name: "acme/gpu/x2" }], devices)).toEqual({ kind: "missing", text: "without the device acme/gpu/x2" });
    expect(assign([{ name: "other/lidar" }], devices)).toMatchObject({ kind: "missing" });
    expect(assign([{ name: "gpu", count: 3 }], devices)).toEqual({ kind: "missing", text: "without 3 devices gpu" });
  });

  it("compares attributes of the device, and of its robot", () => {
    const devices = [gpu("a", { attributes: { memory: "8" } }), gpu("b", { attributes: { memory: "16" } })];
    expect(assign([{ name: "gpu", constraints: [memory("12")] }], devices)).toEqual(["/dev/b"]);
    expect(assign([{ name: "gpu", constraints: [memory("32")] }], devices)).toEqual({
      ...{ kind: "missing", text: "without a device gpu that meets ${device.attr.memory} >= 32" },
    });
    for (const [lTarget, rTarget] of [
      ["${device.vendor}", "acme"],
      ["${device.type}", "gpu"],
      ["${device.model}", "x1"],
      ["${robot.id}", "r"],
    ] as const)
      expect(assign([{ name: "gpu", constraints: [{ lTarget, rTarget }] }], devices)).toEqual(["/dev/a"]);
    expect(assign([{ name: "gpu", constraints: [{ lTarget: "${device.id}", rTarget: "/dev/b" }] }], devices)).toEqual([
      "/dev/b",
    ]);
    expect(
      assign([{ name: "gpu", constraints: [{ lTarget: "${device.attr.toString}", rTarget: "" }] }], devices),
    ).toMatchObject({
      kind: "missing",
    });
  });

  it("leaves a device that meets more for the request that needs it", () => {
    const devices = [gpu("big", { attributes: { memory: "16" } }), gpu("small", { attributes: { memory: "8" } })];
    expect(assign([{ name: "gpu" }, { name: "gpu", constraints: [memory("12")] }], devices)).toEqual([
      "/dev/small",
      "/dev/big",
    ]);
  });

  it("gives a device to as many tasks as it has shares, the least used first", () => {
    const devices = [gpu("a", { shares: 2 }), gpu("b", { shares: 2 }), gpu("c")];
    const used = ["/dev/a", "/dev/c"];
    expect(assign([{ name: "gpu" }], devices, { used })).toEqual(["/dev/b"]);
    expect(assign([{ name: "gpu", count: 2 }], devices, { used })).toEqual(["/dev/a /dev/b"]);
    expect(assign([{ name: "gpu", count: 3 }], devices, { used })).toEqual({
      ...{ kind: "short", name: "gpu", requested: 3, available: 2, total: 3 },
    });
  });

  it("leaves the devices that other tasks have reserved", () => {
    const reserved = [[{ name: "gpu" }]];
    expect(assign([{ name: "gpu" }], [gpu("a")], { reserved })).toMatchObject({ kind: "short", available: 0 });
    expect(assign([{ name: "gpu" }], [gpu("a"), gpu("b")], { reserved })).toEqual(["/dev/b"]);
  });

  it("never exceeds the shares of a device, and finds a choice if there is one", () => {
    const device = fc.record({ memory: fc.integer({ min: 1, max: 4 }), shares: fc.integer({ min: 1, max: 2 }) });
    const request = fc.record({ memory: fc.integer({ min: 1, max: 4 }), count: fc.integer({ min: 1, max: 2 }) });
    fc.assert(
      fc.property(fc.array(device, { maxLength: 5 }), fc.array(request, { minLength: 1, maxLength: 4 }), (some, wanted) => {
        const devices = some.map((each, index) =>
          gpu(`d${index}`, { shares: each.shares, attributes: { memory: `${each.memory}` } }),
        );
        const requests = wanted.map((each) => ({ name: "gpu", count: each.count, constraints: [memory(`${each.memory}`)] }));
        const assignment = assignDevices(requests, withDevices(devices), noDevices);
        const needs = wanted.flatMap((each) => Array.from({ length: each.count }, () => each.memory));
        expect(assignment.kind === "assigned").toBe(
          hasChoice(
            needs,
            some.map((each) => each.memory),
          ),
        );
        if (assignment.kind !== "assigned") return;
        const ids = assignment.devices.flatMap((each) => each.ids);
        expect(new Set(ids).size).toBe(needs.length);
        expect(assignment.devices.map((each) => each.ids.length)).toEqual(wanted.map(({ count }) => count));
      }),
    );
  });
});

/** Whether every need can have its own device: the largest need gets the largest device. */
function hasChoice(needs: readonly number[], devices: readonly number[]): boolean {
  const sorted = [...devices].sort((a, b) => b - a);
  return [...needs].sort((a, b) => b - a).every((need, index) => (sorted[index] ?? 0) >= need);
}

const task = (devices: readonly DeviceRequest[], got?: readonly string[], priority = 50) => {
  const targetDevices = got === undefined ? {} : { targetDevices: [{ name: "gpu", ids: [...got] }] };
  const bound = got !== undefined;
  const status = bound ? { state: "running" as const, attempt: 1 } : {};
  return taskOf(status, {
    bound,
    uid: `u-${got?.join("-") ?? "none"}`,
    spec: { resources: { devices: [...devices] }, priority, ...targetDevices },
  });
};

describe("a task with devices", () => {
  it("is placed where they are free, and the message counts what is missing", () => {
    const robots = [withDevices([gpu("a")], "busy"), withDevices([gpu("a")], "free"), robotOf("none")];
    const demand = demandOf(task([{ name: "gpu" }]), undefined);
    const busy = loadFor(task([]), [{ task: task([{ name: "gpu" }], ["/dev/a"]), kind: "bound" }]);
    const load = (name: string) => (name === "busy" ? busy : noLoad);
    expect(decidePlacement(demand, robots, load)).toMatchObject({
      ...{ kind: "placed", robot: { metadata: { name: "free" } }, devices: [{ name: "gpu", ids: ["/dev/a"] }] },
    });
    expect(decidePlacement(demand, robots, () => busy)).toEqual({
      kind: "none",
      message: "0/3 robots fit: 2 short of the device gpu (requested 1, available at most 0 of 1), 1 without the device gpu",
    });
  });

  it("of every matching robot runs on those that have them, whether or not they are free", () => {
    const requirements = { selector: {}, constraints: [], devices: [{ name: "gpu" }] };
    expect(isEligible(requirements, withDevices([gpu("a")]))).toBe(true);
    expect(isEligible(requirements, robotOf("none"))).toBe(false);
  });

  it("stops a task of lower priority that has them, and no other", () => {
    const robots = [withDevices([gpu("a"), { id: "/dev/arm", name: "arm" }])];
    const occupant = (name: string, id: string, priority: number) => ({
      ...{
        name,
        uid: name,
        attempt: 1,
        priority,
        cpu: 0,
        cpuMhz: 0,
        memoryBytes: 0,
        diskBytes: 0,
        kind: "preemptible" as const,
      },
      devices: { used: [id], reserved: [] },
    });
    const occupants = [occupant("other", "/dev/arm", 1), occupant("victim", "/dev/a", 20)];
    const demand = demandOf(task([{ name: "gpu" }]), undefined);
    const preemption = decidePreemption({ demand, robots, occupantsOf: () => occupants, scoreOf: () => 0 });
    expect(preemption?.victims.map(({ name }) => name)).toEqual(["victim"]);
  });

  it("keeps them until its last robot has confirmed that it stopped", () => {
    const displaced = { robot: "r", attempt: 1, stop: true, devices: [{ name: "gpu", ids: ["/dev/a"] }] };
    const moved = taskOf({ state: "pending", displaced });
    expect(devicesOf({ task: moved, kind: "displaced" }).used).toEqual(["/dev/a"]);
    expect(devicesOf({ task: task([{ name: "gpu" }]), kind: "reserved" }).reserved).toEqual([[{ name: "gpu" }]]);
  });
});
