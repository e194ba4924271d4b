import { describe, expect, test } from "vitest";
import { ipcParameters, rejectionOf } from "./pod-admission.ts";
import type { PodView } from "../pod-view.ts";
import { AllowedSysctls, unsafeSysctlProblem } from "./sysctls.ts";

const podWith = (spec: object): PodView =>
  ({ metadata: { name: "p" }, spec: { containers: [{ name: "main" }], ...spec } }) as unknown as PodView;
const podSetting = (name: string, more: object = {}): PodView =>
  podWith({ securityContext: { sysctls: [{ name, value: "1" }] }, ...more });
const podListening = (port: object, more: object = {}): PodView =>
  podWith({ containers: [{ name: "main", ports: [{ containerPort: 80, ...port }] }], ...more });

test("a node that is low on disk space rejects all Pods except critical ones of the system", () => {
  const context = { sysctls: new AllowedSysctls(), hasDiskPressure: () => true };
  const message = "The node had condition: [DiskPressure]. ";
  expect(rejectionOf(podWith({ priority: 1_000_000 }), [], context)).toEqual({ reason: "Evicted", message });
  const critical = podWith({ priority: 2_000_000_000 });
  expect(rejectionOf(critical, [], context)?.reason).toBe("Evicted");
  const ofSystem = { ...critical, metadata: { ...critical.metadata, namespace: "kube-system" } };
  expect(rejectionOf(ofSystem, [], context)).toBeUndefined();
});

test("a Pod may have 256 containers", () => {
  const containers = Array.from({ length: 200 }, (_, index) => ({ name: `c${index}` }));
  expect(rejectionOf(podWith({ containers, initContainers: containers.slice(0, 56) }), [])).toBeUndefined();
  expect(rejectionOf(podWith({ containers, initContainers: containers.slice(0, 57) }), [])).toEqual({
    reason: "TooManyContainers",
    message: "the Pod has 257 containers: must be at most 256",
  });
});

describe("kernel parameters", () => {
  test.each([
    ["kernel.shm_rmid_forced", {}],
    ["kernel/shm_rmid_forced", { hostNetwork: true }],
    ["net/ipv4/tcp_syncookies", { hostIPC: true }],
  ])("%s is accepted with %j", (name, more) => {
    expect(rejectionOf(podSetting(name, more), [])).toBeUndefined();
  });

  test.each([
    ["kernel.msgmax", {}, '"kernel.msgmax" not allowlisted'],
    ["net.core.somaxconn", {}, '"net.core.somaxconn" not allowlisted'],
    ["net.ipv4.tcp_rmem", { hostNetwork: true }, '"net.ipv4.tcp_rmem" not allowed with host net enabled'],
    ["kernel/shm_rmid_forced", { hostIPC: true }, '"kernel.shm_rmid_forced" not allowed with host ipc enabled'],
  ])("%s is forbidden with %j", (name, more, problem) => {
    expect(rejectionOf(podSetting(name, more), [])).toEqual({
      reason: "SysctlForbidden",
      message: `forbidden sysctl: ${problem}`,
    });
  });

  test.each([
    ["kernel.msgmax", {}, undefined],
    ["kernel/msgmax", { hostNetwork: true }, undefined],
    ["kernel.msgmax", { hostIPC: true }, '"kernel.msgmax" not allowed with host ipc enabled'],
    ["net.core.somaxconn", { hostNetwork: true }, '"net.core.somaxconn" not allowed with host net enabled'],
    ["net.core.somaxconn", {}, undefined],
    ["net.ipv4.tcp_rmem", {}, undefined],
    ["net.ipv4.ip_forward", {}, '"net.ipv4.ip_forward" not allowlisted'],
    ["kernel.sem", {}, '"kernel.sem" not allowlisted'],
  ])("%s is decided as the kubelet does with %j if the node allows unsafe ones", (name, more, problem) => {
    const sysctls = new AllowedSysctls(["kernel.msg*", "net/core/somaxconn", "fs.mqueue.*"]);
    const rejection =
      problem === undefined ? undefined : { reason: "SysctlForbidden", message: `forbidden sysctl: ${problem}` };
    expect(rejectionOf(podSetting(name, more), [], { sysctls, hasDiskPressure: () => false })).toEqual(rejection);
  });

  test.each([
    "kernel.sem",
    "kernel.shm*",
    "kernel.shmmax",
    "kernel.shmm*",
    "kernel.shm_*",
    "kernel/msg*",
    "fs.mqueue.*",
    "net.*",
    "net.ipv4.route.*",
    "net.core.somaxconn",
  ])("%s can be allowed on a node", (pattern) => expect(unsafeSysctlProblem(pattern)).toBeUndefined());

  test.each([
    "",
    "*",
    "kernel.*",
    "kernel.core_pattern",
    "vm.swappiness",
    "fs.mqueue",
    "net",
    "net*",
    "net.*.x",
    "Net.core.x",
    "net..x",
  ])("%j cannot be allowed on a node", (pattern) => {
    expect(unsafeSysctlProblem(pattern)).toMatch(/^must /);
    expect(() => new AllowedSysctls([pattern])).toThrow(RangeError);
  });

  test("of the IPC namespace have paths", () => {
    expect(ipcParameters(podSetting("kernel.msgmax"))).toEqual({ "kernel/msgmax": "1" });
    expect(ipcParameters(podSetting("fs/mqueue/msg_max"))).toEqual({ "fs/mqueue/msg_max": "1" });
    expect(ipcParameters(podSetting("kernel.shm_rmid_forced"))).toEqual({ "kernel/shm_rmid_forced": "1" });
    expect(ipcParameters(podSetting("net.ipv4.tcp_rmem"))).toBeUndefined();
    expect(ipcParameters(podWith({}))).toBeUndefined();
  });
});

describe("ports of the node", () => {
  const free = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
  test.each([
    ["Always", true],
    [undefined, false],
  ])("an init container with restartPolicy %s uses its port alongside the containers: %j", (restartPolicy, isConflict) => {
    const ports = [{ containerPort: 80, hostPort: 80 }];
    const pod = podWith({ initContainers: [{ name: "init", ports, ...(restartPolicy !== undefined && { restartPolicy }) }] });
    expect(rejectionOf(pod, [podListening({ hostPort: 80 })]) !== undefined).toBe(isConflict);
    expect(rejectionOf(podListening({ hostPort: 80 }), [pod]) !== undefined).toBe(isConflict);
  });

  test.each([
    [{ hostPort: 80 }, {}, { hostPort: 80 }, true],
    [{ hostPort: 80, hostIP: "0.0.0.0" }, {}, { hostPort: 80, hostIP: "127.0.0.1" }, true],
    [{ hostPort: 80, hostIP: "127.0.0.1" }, {}, { hostPort: 80 }, true],
    [{ hostPort: 80, hostIP: "127.0.0.1" }, {}, { hostPort: 80, hostIP: "127.0.0.2" }, false],
    [{ hostPort: 80, protocol: "UDP" }, {}, { hostPort: 80 }, false],
    [{ hostPort: 80 }, {}, { hostPort: 81 }, false],
    [{}, {}, {}, false],
    [{}, { hostNetwork: true }, { hostPort: 80 }, true],
  ])("%j of a Pod with %j and %j of another conflict: %j", (port, more, other, isConflict) => {
    const rejection = isConflict ? { reason: "NodePorts", message: free } : undefined;
    expect(rejectionOf(podListening(port, more), [podListening(other)])).toEqual(rejection);
  });
});
