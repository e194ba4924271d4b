import { Node, PersistentVolumeClaim, Pod, StorageClass } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { type Placement, schedule } from "./scheduler-decision.ts";

function start(): World {
  const world = new World();
  node(world, "n1");
  return world;
}
function node(world: World, name: string, spec: object = {}, labels: object = {}, ready = "True"): void {
  const allocatable = { cpu: "2", memory: "4Gi", pods: "3" };
  const conditions = [{ type: "Ready", status: ready }];
  world.create(Node, { metadata: { name, labels }, spec, status: { allocatable, conditions } });
}
function pod(world: World, name: string, spec: object = {}, cpu = "100m"): void {
  const containers = [{ name: "c", resources: { requests: { cpu } } }];
  world.create(Pod, { metadata: { name }, spec: { containers, ...spec } });
  world.now += 1_000;
}
const placements = (world: World, assumed: ReadonlyMap<string, string> = new Map()): string[] =>
  schedule({
    nodes: world.list(Node),
    pods: world.list(Pod),
    claims: world.list(PersistentVolumeClaim),
    classes: world.list(StorageClass),
    volumes: [],
    assumed,
  }).map(
    (one) => `${one.pod.metadata.name}: ${one.kind === "fail" ? one.message : `${one.kind} ${one.node}`}${victimsOf(one)}`,
  );

function victimsOf(placement: Placement): string {
  return placement.kind === "preempt" ? `, ${placement.victims.map(({ metadata }) => metadata.name).join(" ")}` : "";
}

const helpless = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
const victims = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";

describe("the scheduler", () => {
  test("binds Pods to the node with the most free resources, counting each for the next", () => {
    const world = start();
    node(world, "n2");
    pod(world, "a", {}, "1500m");
    pod(world, "b", {}, "1500m");
    pod(world, "c", {}, "1500m");
    expect(placements(world).toSorted()).toEqual([
      "a: bind n1",
      "b: bind n2",
      "c: 0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
    ]);
  });

  test("schedules by priority, then by age", () => {
    const world = start();
    pod(world, "old", {}, "1");
    pod(world, "young", {}, "1");
    pod(world, "urgent", { priority: 100 }, "1");
    expect(placements(world)).toEqual([
      "urgent: bind n1",
      "old: bind n1",
      expect.stringMatching(/^young: .* 1 Insufficient cpu/),
    ]);
  });

  test("counts running, assumed and terminating Pods, but not terminated ones", () => {
    const world = start();
    pod(world, "ended", { nodeName: "n1" }, "2");
    world.setPod("ended", "Succeeded");
    pod(world, "ends", { nodeName: "n1" }, "1");
    world.delete(Pod, "ends", true);
    pod(world, "assumed", {}, "500m");
    pod(world, "big", {}, "1");
    const assumed = new Map([[world.get(Pod, "assumed").metadata.uid ?? "", "n1"]]);
    expect(placements(world, assumed)).toEqual([`big: 0/1 nodes are available: 1 Insufficient cpu. ${victims}`]);
    world.end("ends");
    expect(placements(world, assumed)).toEqual(["big: bind n1"]);
  });

  test.each([
    ["a request larger than any node", {}, "3", `1 Insufficient cpu. ${helpless}`],
    [
      "a node selector that matches nothing",
      { nodeSelector: { disk: "fast" } },
      "1",
      `1 node(s) didn't match Pod's node affinity/selector. ${helpless}`,
    ],
    [
      "a node affinity that matches nothing",
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "zone", operator: "In", values: ["a"] }] }],
            },
          },
        },
      },
      "1",
      `1 node(s) didn't match Pod's node affinity/selector. ${helpless}`,
    ],
    [
      "a missing claim",
      { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "gone" } }] },
      "1",
      `persistentvolumeclaim "gone" not found. ${helpless}`,
    ],
  ])("reports %s", (_what, spec, cpu, message) => {
    const world = start();
    pod(world, "p", spec, cpu);
    expect(placements(world)).toEqual([`p: 0/1 nodes are available: ${message}`]);
  });

  test("reports missing nodes, too many Pods, taints and occupied host ports", () => {
    const empty = new World();
    pod(empty, "p");
    expect(placements(empty)).toEqual(["p: no nodes available to schedule pods"]);

    const full = start();
    for (const name of ["a", "b", "c"]) pod(full, name, { nodeName: "n1" });
    pod(full, "p");
    expect(placements(full)).toEqual([`p: 0/1 nodes are available: 1 Too many pods. ${victims}`]);

    const tainted = new World();
    node(tainted, "n1", { taints: [{ key: "only", value: "gpu", effect: "NoSchedule" }] });
    pod(tainted, "p");
    pod(tainted, "tolerant", { tolerations: [{ key: "only", operator: "Equal", value: "gpu" }] });
    expect(placements(tainted)).toEqual([
      `p: 0/1 nodes are available: 1 node(s) had untolerated taint {only: gpu}. ${helpless}`,
      "tolerant: bind n1",
    ]);

    const down = new World();
    node(down, "n1", {}, {}, "Unknown");
    pod(down, "p");
    expect(placements(down)[0]).toContain("1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }");

    const cordoned = new World();
    node(cordoned, "n1", { unschedulable: true });
    pod(cordoned, "p");
    expect(placements(cordoned)).toEqual([`p: 0/1 nodes are available: 1 node(s) were unschedulable. ${helpless}`]);

    const ports = start();
    const spec = { containers: [{ name: "c", ports: [{ containerPort: 1, hostPort: 80 }] }] };
    pod(ports, "a", { ...spec, nodeName: "n1" });
    pod(ports, "b", spec);
    expect(placements(ports)[0]).toContain("1 node(s) didn't have free ports for the requested pod ports");
  });

  test("ignores Pods of other schedulers, gated Pods and bound Pods", () => {
    const world = start();
    pod(world, "other", { schedulerName: "mine" });
    pod(world, "gated", { schedulingGates: [{ name: "g" }] });
    pod(world, "placed", { nodeName: "n1" });
    expect(placements(world)).toEqual([]);
  });

  test("waits for immediate claims, and selects the node for claims that wait for their first consumer", () => {
    const world = start();
    world.create(StorageClass, { metadata: { name: "late" }, provisioner: "p", volumeBindingMode: "WaitForFirstConsumer" });
    world.create(PersistentVolumeClaim, { metadata: { name: "c" }, spec: { storageClassName: "standard" } });
    pod(world, "p", { volumes: [{ name: "v", persistentVolumeClaim: { claimName: "c" } }] });
    expect(placements(world)[0]).toContain("pod has unbound immediate PersistentVolumeClaims");
    world.change(PersistentVolumeClaim, "c", { spec: { storageClassName: "late" } });
    expect(placements(world)).toEqual(["p: select-node n1"]);
    world.change(PersistentVolumeClaim, "c", { metadata: { annotations: { "volume.kubernetes.io/selected-node": "n1" } } });
    expect(placements(world)).toEqual([]);
    world.change(PersistentVolumeClaim, "c", { spec: { volumeName: "v" }, status: { phase: "Bound" } });
    expect(placements(world)).toEqual(["p: bind n1"]);
  });

  test("counts init containers by their peak and sidecars in the sum", () => {
    const world = start();
    const requests = (cpu: string): object => ({ resources: { requests: { cpu } } });
    const initContainers = [
      { name: "s", restartPolicy: "Always", ...requests("500m") },
      { name: "i", ...requests("1600m") },
    ];
    pod(world, "p", { initContainers, containers: [{ name: "c", ...requests("1") }] });
    expect(placements(world)[0]).toContain("1 Insufficient cpu");
    world.change(Pod, "p", { spec: { initContainers: [initContainers[0], { name: "i", ...requests("1500m") }] } });
    expect(placements(world)).toEqual(["p: bind n1"]);
  });
});

describe("preemption", () => {
  /** A running Pod on a node. */
  function running(world: World, name: string, priority: number, cpu: string, on = "n1", metadata: object = {}): void {
    const containers = [{ name: "c", resources: { requests: { cpu } } }];
    const startTime = new Date(world.now).toISOString();
    world.create(Pod, {
      metadata: { name, ...metadata },
      spec: { containers, priority, nodeName: on },
      status: { phase: "Running", startTime },
    });
    world.now += 1_000;
  }

  test("deletes the least important Pods that make room, and no others", () => {
    const world = start();
    running(world, "low", 1, "1");
    running(world, "middle", 5, "500m");
    running(world, "high", 100, "500m");
    pod(world, "urgent", { priority: 50 }, "900m");
    expect(placements(world)).toEqual(["urgent: preempt n1, low"]);
  });

  test("chooses the node whose victims have the lowest priority, then where fewer must go", () => {
    const world = start();
    node(world, "n2");
    node(world, "n3");
    running(world, "a", 5, "2");
    running(world, "b", 1, "1", "n2");
    running(world, "c", 1, "1", "n2");
    running(world, "d", 1, "2", "n3");
    pod(world, "urgent", { priority: 50 }, "2");
    expect(placements(world)).toEqual(["urgent: preempt n3, d"]);
  });

  test("needs a lower priority, and a policy that allows it", () => {
    const world = start();
    running(world, "same", 50, "2");
    pod(world, "urgent", { priority: 50 }, "1");
    expect(placements(world)).toEqual([`urgent: 0/1 nodes are available: 1 Insufficient cpu. ${victims}`]);
    const never = start();
    running(never, "low", 1, "2");
    pod(never, "polite", { priority: 50, preemptionPolicy: "Never" }, "1");
    expect(placements(never)).toEqual([
      "polite: 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
    ]);
  });

  test("does not help against taints and selectors", () => {
    const world = start();
    running(world, "low", 1, "2");
    pod(world, "urgent", { priority: 50, nodeSelector: { a: "b" } }, "1");
    expect(placements(world)).toEqual([
      `urgent: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. ${helpless}`,
    ]);
  });

  test.each([
    ["Deferred", "1", "late: 0/1"],
    ["Infeasible", "1", "late: bind n1"],
  ])("counts what a Pod desires, has been allocated and has during a resize that is %s", (reason, cpu, expected) => {
    const world = start();
    const containers = [{ name: "c", resources: { requests: { cpu } } }];
    const held = { requests: { cpu: "100m" } };
    world.create(Pod, {
      metadata: { name: "resized" },
      spec: { containers, nodeName: "n1" },
      status: {
        conditions: [{ type: "PodResizePending", status: "True", reason }],
        containerStatuses: [
          {
            name: "c",
            ready: true,
            restartCount: 0,
            image: "",
            imageID: "",
            allocatedResources: held.requests,
            resources: held,
          },
        ],
      },
    });
    pod(world, "late", {}, "1500m");
    expect(placements(world)[0]).toContain(expected);
  });

  test("waits for victims that terminate, and keeps their room from Pods of lower priority", () => {
    const world = start();
    running(world, "low", 1, "1500m", "n1", { deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["a/b"] });
    const containers = [{ name: "c", resources: { requests: { cpu: "1" } } }];
    world.create(Pod, {
      metadata: { name: "urgent" },
      spec: { containers, priority: 50 },
      status: { nominatedNodeName: "n1" },
    });
    pod(world, "late", {}, "400m");
    expect(placements(world)).toEqual([
      "urgent: 0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to a terminating pod on the nominated node.",
      `late: 0/1 nodes are available: 1 Insufficient cpu. ${victims}`,
    ]);
  });
});
