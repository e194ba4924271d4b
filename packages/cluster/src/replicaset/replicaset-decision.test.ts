import { Pod, ReplicaSet } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { byDeletionRank } from "./deletion-rank.ts";
import { decideReplicaSetPods, decideReplicaSetStatus } from "./replicaset-decision.ts";

function start(spec: object = {}): World {
  const world = new World();
  world.create(ReplicaSet, {
    metadata: { name: "rs" },
    spec: {
      replicas: 2,
      selector: { matchLabels: { app: "a" } },
      template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c" }] } },
      ...spec,
    },
  });
  return world;
}
const observe = (world: World) => ({ replicaSet: world.get(ReplicaSet, "rs"), pods: world.list(Pod) });
const settle = (world: World): unknown => {
  world.settle(() => ({ writes: decideReplicaSetPods(observe(world)) }));
  return world.settle(() => decideReplicaSetStatus(observe(world), world.now)).requeueAfterMs;
};

describe("a ReplicaSet", () => {
  test("creates missing Pods and deletes surplus ones", () => {
    const world = start();
    settle(world);
    expect(world.list(Pod).map(({ metadata }) => metadata.generateName ?? metadata.name)).toHaveLength(2);
    world.change(ReplicaSet, "rs", { spec: { replicas: 0 } });
    settle(world);
    expect(world.list(Pod)).toEqual([]);
    expect(world.get(ReplicaSet, "rs").status).toEqual({ replicas: 0, observedGeneration: 2 });
  });

  test("replaces terminated and terminating Pods and counts neither", () => {
    const world = start();
    settle(world);
    const [first, second] = world.list(Pod).map(({ metadata }) => metadata.name ?? "");
    world.setPod(first ?? "", "Failed");
    world.delete(Pod, second ?? "", true);
    settle(world);
    expect(world.list(Pod)).toHaveLength(4);
    expect(world.get(ReplicaSet, "rs").status).toMatchObject({ replicas: 2, terminatingReplicas: 1 });
  });

  test("adopts a matching orphan instead of creating a Pod, and releases a Pod that no longer matches", () => {
    const world = start({ replicas: 1 });
    world.create(Pod, { metadata: { name: "orphan", labels: { app: "a" } }, spec: { containers: [] } });
    settle(world);
    expect(world.list(Pod)).toMatchObject([
      { metadata: { name: "orphan", ownerReferences: [{ name: "rs", controller: true }] } },
    ]);
    world.change(Pod, "orphan", { metadata: { labels: { app: "b" } } });
    settle(world);
    expect(world.get(Pod, "orphan").metadata.ownerReferences).toEqual([]);
    expect(world.list(Pod)).toHaveLength(2);
  });

  test("adopts nothing with an empty selector", () => {
    const world = start({ replicas: 0, selector: {} });
    world.create(Pod, { metadata: { name: "stranger" }, spec: { containers: [] } });
    settle(world);
    expect(world.get(Pod, "stranger").metadata.ownerReferences).toBeUndefined();
  });

  test("creates, adopts and deletes nothing while it is being deleted", () => {
    const world = start();
    world.change(ReplicaSet, "rs", { metadata: { finalizers: ["x/y"] } });
    world.delete(ReplicaSet, "rs");
    world.create(Pod, { metadata: { name: "orphan", labels: { app: "a" } }, spec: { containers: [] } });
    expect(decideReplicaSetPods(observe(world))).toEqual([]);
  });

  test("counts a Pod as available after minReadySeconds and requeues for that time", () => {
    const world = start({ replicas: 1, minReadySeconds: 10 });
    settle(world);
    world.setPod(world.list(Pod)[0]?.metadata.name ?? "", "Running", true);
    expect(settle(world)).toBe(10_000);
    expect(world.get(ReplicaSet, "rs").status).toMatchObject({ readyReplicas: 1 });
    expect(world.get(ReplicaSet, "rs").status?.availableReplicas).toBeUndefined();
    world.now += 10_000;
    expect(settle(world)).toBeUndefined();
    expect(world.get(ReplicaSet, "rs").status?.availableReplicas).toBe(1);
  });

  test("reports in ReplicaFailure why it cannot create Pods, until it can", () => {
    const world = start();
    const failure = { reason: "FailedCreate", message: "quota" } as const;
    world.perform(decideReplicaSetStatus(observe(world), world.now, failure).writes);
    expect(world.get(ReplicaSet, "rs").status?.conditions).toMatchObject([
      { type: "ReplicaFailure", status: "True", ...failure },
    ]);
    settle(world);
    expect(world.get(ReplicaSet, "rs").status?.conditions).toBeUndefined();
  });

  test("creates at most 500 Pods in one reconcile", () => {
    expect(decideReplicaSetPods(observe(start({ replicas: 10_000 })))).toHaveLength(500);
  });
});

test("Pods whose loss costs least are deleted first", () => {
  const world = new World();
  const make = (name: string, spec: object, phase: "Pending" | "Running", ready: boolean, annotations = {}): void => {
    world.create(Pod, { metadata: { name, annotations }, spec: { containers: [], ...spec } });
    world.setPod(name, phase, ready);
    world.now += 1_000;
  };
  make("cheap", { nodeName: "n" }, "Running", true, { "controller.kubernetes.io/pod-deletion-cost": "-5" });
  make("old", { nodeName: "n" }, "Running", true);
  make("young", { nodeName: "n" }, "Running", true);
  make("alone", { nodeName: "m" }, "Running", true);
  make("unready", { nodeName: "n" }, "Running", false);
  make("pending", { nodeName: "n" }, "Pending", false);
  make("unplaced", {}, "Pending", false);
  expect(byDeletionRank(world.list(Pod)).map(({ metadata }) => metadata.name)).toEqual([
    "unplaced",
    "pending",
    "unready",
    "cheap",
    "young",
    "old",
    "alone",
  ]);
});
