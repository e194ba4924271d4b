import type { JsonValue } from "@keelson/api-machinery";
import type { Program, ProgramState } from "@keelson/execution";
import { expect, test } from "vitest";
import { readDevicePolicies } from "../policy/device-policy.ts";
import { DeviceClaims } from "./device-claims.ts";
import { startFailed } from "../tasks/task-starts.ts";
import { devicePaths, deviceVariables, forbiddenDevice, missingDevice, taskDevices } from "./task-devices.ts";

const policy = {
  devices: readDevicePolicies([
    { name: "acme/gpu/x1", paths: ["/dev/gpu*"], companions: ["/dev/null", "/dev/missing"], shares: 2 },
    { name: "arm", paths: ["/dev/arm"] },
  ]),
};
const specOf = (devices: JsonValue, targetDevices: JsonValue) => ({ resources: { devices }, targetDevices });

test("a task gets the devices that were assigned to its requests", () => {
  const spec = specOf(
    [{ name: "gpu", count: 2 }, { name: "arm" }],
    [
      { name: "gpu", ids: ["/dev/gpu0", "/dev/gpu1"] },
      { name: "arm", ids: ["/dev/arm"] },
    ],
  );
  const devices = taskDevices(spec, policy);
  expect(deviceVariables(devices)).toEqual({ K8S4R_DEVICE_GPU: "/dev/gpu0 /dev/gpu1", K8S4R_DEVICE_ARM: "/dev/arm" });
  expect(devicePaths(policy, devices)).toEqual(["/dev/gpu0", "/dev/gpu1", "/dev/arm", "/dev/null"]);
  expect(missingDevice(devices)).toBe("device /dev/gpu0 not found on the robot");
  expect(missingDevice([{ name: "x", ids: ["/dev/null"] }])).toBeUndefined();
  expect(taskDevices({ targetDevices: [{ name: "arm", ids: ["/dev/arm"] }] }, policy)).toEqual([]);
});

test.each([
  [[{ name: "arm" }], null, "assigned no 1 devices"],
  [[{ name: "gpu", count: 2 }], [{ name: "gpu", ids: ["/dev/gpu0"] }], "assigned no 2 devices"],
  [[{ name: "gpu" }], [{ name: "arm", ids: ["/dev/arm"] }], "assigned no 1 devices"],
  [[{ name: "gpu" }], [{ name: "gpu", ids: ["/dev/sda"] }], 'the robot\'s policy offers no device "gpu" at /dev/sda'],
  [[{ name: "gpu" }], [{ name: "gpu", ids: ["/dev/arm"] }], "the robot's policy offers no device"],
  [[{ name: "gpu" }], [{ name: "gpu", ids: ["/dev/gpu0/../sda"] }], "the robot's policy offers no device"],
  [[{ name: "gpu", count: 2 }], [{ name: "gpu", ids: ["/dev/gpu0", "/dev/gpu0"] }], "a device is assigned twice"],
  ["gpu", [], "spec.resources.devices must be a list"],
  [[{ name: "gpu" }], {}, "spec.targetDevices must be a list"],
])("the requests %j with the devices %j are rejected", (requests, assigned, message) => {
  expect(() => taskDevices(specOf(requests, assigned), policy)).toThrow(message);
});

test("a policy that no longer offers a device forbids it", () => {
  const devices = [{ name: "arm", ids: ["/dev/arm"] }];
  expect(forbiddenDevice(policy, devices)).toBeUndefined();
  expect(forbiddenDevice({}, devices)).toContain('offers no device "arm" at /dev/arm');
});

const programWith = (id: string, devices: string, state: ProgramState): Pick<Program, "id" | "spec" | "state"> => ({
  ...{ id, state, spec: { id, command: ["/bin/true"], metadata: { devices } } },
});

test("a device that a running program has is not given to another one", () => {
  const running = { kind: "running", pid: 1, startedAt: 0 } as const;
  const programs = [programWith("p1", "/dev/arm /dev/gpu0", running), programWith("p2", "/dev/gpu1", startFailed(0, "failed"))];
  const claims = new DeviceClaims({ list: () => programs });
  const claim = (program: string, name: string, id: string) => claims.claim(program, [{ name, ids: [id] }], policy);
  expect(claim("new", "arm", "/dev/arm")).toBe("device /dev/arm is used by the program p1");
  expect(claim("p1", "arm", "/dev/arm")).toBeUndefined();
  expect(claim("new", "gpu", "/dev/gpu1")).toBeUndefined();
  // Two tasks share it.
  expect(claim("other", "gpu", "/dev/gpu0")).toBeUndefined();
  expect(claim("third", "gpu", "/dev/gpu0")).toBe("device /dev/gpu0 is used by the program p1");
  claims.release("other");
  expect(claim("third", "gpu", "/dev/gpu0")).toBeUndefined();
});
