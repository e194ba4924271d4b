import { describe, expect, it } from "vitest";
import type { Resource } from "./function.ts";
import { validateCall, checkNames, extractorNames, findCheck, findExtractor } from "./registry.ts";

type Verdict = "pass" | "fail" | "never";

function verdict(name: string, resource: Resource, params = {}): Verdict {
  const result = findCheck(name)?.check(resource, params, { now: 0, pods: undefined });
  if (result === undefined) throw new Error(`no function ${name}`);
  return result.passed ? "pass" : result.isTerminal ? "never" : "fail";
}
const condition = (type: string, status: string, reason = "") => ({ conditions: [{ type, status, reason }] });
const replicas = (count: number, status: object) => ({ spec: { replicas: count }, status });

it("has every function of TestPlane; extractors are not checks (regression 18)", () => {
  expect(checkNames.length).toBeGreaterThanOrEqual(30);
  expect(extractorNames).toEqual([
    "FieldPath",
    "ClusterNodeURL",
    "ClusterNodeIP",
    "ClusterID",
    "ClusterVIP",
    "ClusterClientPort",
  ]);
  for (const name of extractorNames)
    expect(validateCall("check", name, { path: "a" })).toMatch(/is not a check; use FieldEquals/);
});

describe("checks", () => {
  it.each<[string, string, Resource, Verdict]>([
    ["ResourceExists", "an empty object does not exist", {}, "fail"],
    ["ResourceNotExists", "holds without an object", undefined, "pass"],
    ["DeploymentReady", "scaled to zero is ready", replicas(0, {}), "pass"],
    ["DeploymentAvailable", "scaled to zero is available", replicas(0, {}), "pass"],
    ["DeploymentReady", "old Pods do not count", replicas(2, { availableReplicas: 2, updatedReplicas: 1 }), "fail"],
    [
      "DeploymentReady",
      "the status of an older generation does not count",
      {
        metadata: { generation: 2 },
        status: { observedGeneration: 1, availableReplicas: 1, updatedReplicas: 1 },
      },
      "fail",
    ],
    [
      "DeploymentReady",
      "a rollout that exceeded its deadline fails permanently",
      replicas(1, condition("Progressing", "False", "ProgressDeadlineExceeded")),
      "never",
    ],
    ["StatefulSetReady", "scaled to zero is ready", replicas(0, {}), "pass"],
    [
      "StatefulSetReady",
      "a rollout in progress is not ready",
      replicas(1, { readyReplicas: 1, currentRevision: "a", updateRevision: "b" }),
      "fail",
    ],
    [
      "StatefulSetReady",
      "OnDelete ignores revisions",
      {
        spec: { replicas: 1, updateStrategy: { type: "OnDelete" } },
        status: { readyReplicas: 1, currentRevision: "a", updateRevision: "b" },
      },
      "pass",
    ],
    ["DaemonSetReady", "zero desired Pods is ready", { status: { desiredNumberScheduled: 0, numberReady: 0 } }, "pass"],
    ["DaemonSetReady", "an empty status is not ready", { status: {} }, "fail"],
    [
      "DaemonSetReady",
      "old Pods do not count",
      { status: { desiredNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 1 } },
      "fail",
    ],
    [
      "PodReady",
      "requires the Ready condition, not only ready containers",
      {
        status: { phase: "Running", containerStatuses: [{ name: "a", ready: true }], ...condition("Ready", "False") },
      },
      "fail",
    ],
    ["PodReady", "a terminated Pod fails permanently", { status: { phase: "Failed" } }, "never"],
    [
      "PodReady",
      "an invalid image name fails permanently",
      {
        status: {
          phase: "Pending",
          containerStatuses: [{ name: "a", ready: false, state: { waiting: { reason: "InvalidImageName" } } }],
        },
      },
      "never",
    ],
    ["PodComplete", "a failed Pod fails permanently", { status: { phase: "Failed" } }, "never"],
    ["JobComplete", "a failed Job fails permanently", { status: condition("Failed", "True") }, "never"],
    ["JobComplete", "requires all completions", { spec: { completions: 3 }, status: { succeeded: 2 } }, "fail"],
    ["ServiceReady", "a headless Service with a selector", { spec: { clusterIP: "None", selector: { app: "x" } } }, "pass"],
    ["ServiceReady", "a headless Service without one", { spec: { clusterIP: "None" } }, "fail"],
    ["ServiceReady", "an ExternalName without a name", { spec: { type: "ExternalName" } }, "fail"],
    ["PVCBound", "a lost claim fails permanently", { status: { phase: "Lost" } }, "never"],
    ["ClusterReady", "an active cluster", { status: { phase: "active", transitionStatus: "" } }, "pass"],
    ["ClusterReady", "an active cluster in transition", { status: { phase: "active", transitionStatus: "scaling" } }, "fail"],
    ["InstanceReady", "a running instance", { status: { phase: "running" } }, "pass"],
  ])("%s: %s", (name, _, resource, expected) => {
    expect(verdict(name, resource)).toBe(expected);
  });

  it.each<[string, Resource, object, Verdict]>([
    ["FieldEquals", { a: [{ "b.c": 3 }] }, { path: "a[0]['b.c']", value: 3 }, "pass"],
    ["FieldEquals", { a: true }, { path: ".a", value: "true" }, "fail"],
    ["ConditionTrue", { status: condition("Ready", "Unknown") }, { type: "Ready" }, "fail"],
    ["ClusterNodeCount", { status: { nodes: [{}, {}] } }, { expected: 2 }, "pass"],
    ["ClusterPhaseEquals", { status: { phase: "x", transitionStatus: "y" } }, { phase: "x", ignoreTransition: true }, "pass"],
    ["ClusterSecurityGroupExists", { status: { securityGroups: [{ id: "s", state: "Attached" }] } }, { id: "s" }, "pass"],
    ["InstanceSecurityGroupExists", { status: { securityGroups: ["s"] } }, { id: "s" }, "pass"],
    ["InstanceSecurityGroupNotExists", { status: { securityGroups: ["s"] } }, { id: "s" }, "fail"],
  ])("%s of %j with %j: %s", (name, resource, params, expected) => {
    expect(verdict(name, resource, params)).toBe(expected);
  });
});

it.each<[string, unknown, string | undefined]>([
  ["a.b", { a: { b: "text" } }, "text"],
  ["a[0].ip", { a: [{ ip: "10.0.0.1" }] }, "10.0.0.1"],
  ["a", { a: 3 }, "3"],
  ["a", { a: false }, "false"],
  ["a.b", { a: {} }, undefined],
])("FieldPath %s of %j is %j", (path, resource, expected) => {
  expect(findExtractor("FieldPath")?.extract(resource as Resource, { path })).toBe(expected);
});

it.each([
  ["PodRedy", {}, /unknown function "PodRedy"/],
  ["podready", {}, /did you mean PodReady\?/],
  ["FieldEquals", { path: "a" }, /params\.value: required by FieldEquals/],
  ["FieldEquals", { path: "a[", value: 1 }, /params\.path/],
  ["ClusterNodeCount", { expected: "two" }, /params\.expected: must be of type integer/],
  ["PodReady", { phase: "x" }, /params\.phase: unknown parameter of PodReady/],
])("rejects a call of %s with %j and names the field", (name, params, message) => {
  expect(validateCall("check", name, params)).toMatch(message);
});

describe("a workload whose Pods crash", () => {
  const now = Date.UTC(2026, 0, 1, 0, 1);
  const ago = (seconds: number) => new Date(now - seconds * 1_000).toISOString();
  const ready = replicas(1, { availableReplicas: 1, updatedReplicas: 1, readyReplicas: 1 });
  const pod = (container: object, more: object = {}) => ({
    metadata: { name: "web-1", creationTimestamp: ago(30), labels: { "pod-template-hash": "b" } },
    spec: { containers: [{ name: "app" }] },
    status: { phase: "Running", containerStatuses: [{ name: "app", ready: true, restartCount: 0, ...container }], ...more },
  });
  const check = (...pods: object[]) =>
    findCheck("DeploymentReady")?.check(ready, {}, { now, pods: pods as NonNullable<Resource>[] });
  const running = (seconds: number, restartCount = 0) => pod({ restartCount, state: { running: { startedAt: ago(seconds) } } });

  it("is not ready while a restarted container has not run for 10 s", () => {
    expect(check(running(1, 2))).toMatchObject({ passed: false, message: "container app of Pod web-1 restarted 2 times" });
    expect(check(running(9, 1))).toMatchObject({ passed: false, retryAtMs: now + 1_000 });
    expect(check(running(10, 1))).toMatchObject({ passed: true });
  });

  it("is not ready while its Pods have not been observed as ready", () => {
    expect(check()).toMatchObject({ passed: false, message: "0 of 1 Pods are ready" });
    expect(check(pod({ ready: false, state: {} }))).toMatchObject({ passed: false });
    expect(findCheck("DeploymentReady")?.check(ready, {}, { now, pods: undefined })).toMatchObject({ passed: true });
  });

  it("is not ready while a container without a readiness probe has just started", () => {
    expect(check(running(1))).toMatchObject({ passed: false, retryAtMs: now + 2_000 });
    expect(check(running(3))).toMatchObject({ passed: true });
    const probed = { ...running(1), spec: { containers: [{ name: "app", readinessProbe: {} }] } };
    expect(check(probed)).toMatchObject({ passed: true });
  });

  it("fails permanently in a crash loop, with the exit code and the last message", () => {
    const looping = pod({
      ready: false,
      restartCount: 3,
      state: { waiting: { reason: "CrashLoopBackOff" } },
      lastState: { terminated: { exitCode: 1, message: "no such file" } },
    });
    expect(check(looping)).toMatchObject({
      isTerminal: true,
      message: "container app of Pod web-1 is crash-looping: exit code 1, 3 restarts: no such file",
    });
  });

  it("ignores terminating Pods and those of an earlier revision", () => {
    const looping = { state: { waiting: { reason: "CrashLoopBackOff" } } };
    const old = {
      ...pod(looping),
      metadata: { name: "old", creationTimestamp: ago(60), labels: { "pod-template-hash": "a" } },
    };
    const terminating = { ...pod(looping), metadata: { name: "gone", creationTimestamp: ago(20), deletionTimestamp: ago(1) } };
    expect(check(old, terminating, running(20))).toMatchObject({ passed: true });
  });
});
