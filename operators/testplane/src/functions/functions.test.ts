import { describe, expect, it } from "vitest";
import type { Resource } from "./function.ts";
import { callFault, checkNames, extractorNames, findCheck, findExtractor } from "./registry.ts";

type Verdict = "pass" | "fail" | "never";

function verdict(name: string, resource: Resource, params = {}): Verdict {
  const result = findCheck(name)?.check(resource, params);
  if (result === undefined) throw new Error(`there is no ${name}`);
  return result.passed ? "pass" : result.isFinal ? "never" : "fail";
}
const condition = (type: string, status: string, reason = "") => ({ conditions: [{ type, status, reason }] });
const replicas = (count: number, status: object) => ({ spec: { replicas: count }, status });

it("has every function of TestPlane, and its extractors are no checks (regression 18)", () => {
  expect(checkNames.length).toBeGreaterThanOrEqual(30);
  expect(extractorNames).toEqual([
    "FieldPath",
    "ClusterNodeURL",
    "ClusterNodeIP",
    "ClusterID",
    "ClusterVIP",
    "ClusterClientPort",
  ]);
  for (const name of extractorNames) expect(callFault("check", name, { path: "a" })).toMatch(/checks nothing; use FieldEquals/);
});

describe("checks", () => {
  it.each<[string, string, Resource, Verdict]>([
    ["ResourceExists", "an empty object is none", {}, "fail"],
    ["ResourceNotExists", "holds for no object", undefined, "pass"],
    ["DeploymentReady", "scaled to zero is ready", replicas(0, {}), "pass"],
    ["DeploymentAvailable", "scaled to zero is available", replicas(0, {}), "pass"],
    ["DeploymentReady", "old Pods are not the new ones", replicas(2, { availableReplicas: 2, updatedReplicas: 1 }), "fail"],
    [
      "DeploymentReady",
      "a status of an older generation says nothing",
      {
        metadata: { generation: 2 },
        status: { observedGeneration: 1, availableReplicas: 1, updatedReplicas: 1 },
      },
      "fail",
    ],
    [
      "DeploymentReady",
      "a rollout that was given up never gets ready",
      replicas(1, condition("Progressing", "False", "ProgressDeadlineExceeded")),
      "never",
    ],
    ["StatefulSetReady", "scaled to zero is ready", replicas(0, {}), "pass"],
    [
      "StatefulSetReady",
      "a rollout under way is not ready",
      replicas(1, { readyReplicas: 1, currentRevision: "a", updateRevision: "b" }),
      "fail",
    ],
    [
      "StatefulSetReady",
      "with OnDelete nobody waits for revisions",
      {
        spec: { replicas: 1, updateStrategy: { type: "OnDelete" } },
        status: { readyReplicas: 1, currentRevision: "a", updateRevision: "b" },
      },
      "pass",
    ],
    ["DaemonSetReady", "no node to run on is ready", { status: { desiredNumberScheduled: 0, numberReady: 0 } }, "pass"],
    ["DaemonSetReady", "no status yet is not", { status: {} }, "fail"],
    [
      "DaemonSetReady",
      "old Pods are not the new ones",
      { status: { desiredNumberScheduled: 2, numberReady: 2, updatedNumberScheduled: 1 } },
      "fail",
    ],
    [
      "PodReady",
      "looks at the Ready condition, not at containers alone",
      {
        status: { phase: "Running", containerStatuses: [{ name: "a", ready: true }], ...condition("Ready", "False") },
      },
      "fail",
    ],
    ["PodReady", "an ended Pod never gets ready", { status: { phase: "Failed" } }, "never"],
    [
      "PodReady",
      "an image name that is none never comes",
      {
        status: {
          phase: "Pending",
          containerStatuses: [{ name: "a", ready: false, state: { waiting: { reason: "InvalidImageName" } } }],
        },
      },
      "never",
    ],
    ["PodComplete", "a failed Pod never completes", { status: { phase: "Failed" } }, "never"],
    ["JobComplete", "a failed Job never completes", { status: condition("Failed", "True") }, "never"],
    ["JobComplete", "some of the completions are not all", { spec: { completions: 3 }, status: { succeeded: 2 } }, "fail"],
    ["ServiceReady", "a headless Service with a selector", { spec: { clusterIP: "None", selector: { app: "x" } } }, "pass"],
    ["ServiceReady", "a headless Service without one", { spec: { clusterIP: "None" } }, "fail"],
    ["ServiceReady", "an ExternalName without a name", { spec: { type: "ExternalName" } }, "fail"],
    ["PVCBound", "a lost claim is never bound", { status: { phase: "Lost" } }, "never"],
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
])("FieldPath %s of %j is %j: numbers, lists and what is missing are told apart", (path, resource, expected) => {
  expect(findExtractor("FieldPath")?.extract(resource as Resource, { path })).toBe(expected);
});

it.each([
  ["PodRedy", {}, /unknown function "PodRedy"/],
  ["podready", {}, /did you mean PodReady\?/],
  ["FieldEquals", { path: "a" }, /params\.value: FieldEquals needs it/],
  ["FieldEquals", { path: "a[", value: 1 }, /params\.path/],
  ["ClusterNodeCount", { expected: "two" }, /params\.expected: must be of type integer/],
  ["PodReady", { phase: "x" }, /params\.phase: PodReady has no such parameter/],
])("a call of %s with %j is refused, and the field named", (name, params, message) => {
  expect(callFault("check", name, params)).toMatch(message);
});
