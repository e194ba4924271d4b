import { ControllerRevision, DaemonSet, type DaemonSetObject, Node, Pod } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { type CachedPod, isPodReady } from "../workload/pod-state.ts";
import { World } from "../workload/testing/world.ts";
import type { Decision } from "../workload/write.ts";
import { decideDaemonSet } from "./daemonset-decision.ts";
import { nodeOf } from "./daemonset-pod.ts";

const template = (version: string, spec: object = {}): DaemonSetObject["spec"]["template"] => ({
  metadata: { labels: { app: "a" } },
  spec: { containers: [{ name: "c", image: `app:${version}` }], ...spec },
});

function start(spec: object = {}, nodes: readonly string[] = ["n1", "n2", "n3"]): World {
  const world = new World();
  for (const name of nodes) addNode(world, name);
  world.create(DaemonSet, {
    metadata: { name: "d", annotations: { "deprecated.daemonset.template.generation": "1" } },
    spec: { selector: { matchLabels: { app: "a" } }, template: template("1"), ...spec },
  });
  return world;
}
const addNode = (world: World, name: string, spec: object = {}, labels: object = {}): unknown =>
  world.create(Node, { metadata: { name, labels }, spec });
const decide = (world: World) => (): Decision =>
  decideDaemonSet(
    {
      set: world.get(DaemonSet, "d"),
      nodes: world.list(Node),
      pods: world.list(Pod),
      revisions: world.list(ControllerRevision),
    },
    world.now,
  );
const settle = (world: World): Decision => world.settle(decide(world), true);
const status = (world: World) => world.get(DaemonSet, "d").status;
const images = (world: World): string[] =>
  world
    .list(Pod)
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .map((pod) => `${nodeOf(pod)} ${pod.spec.containers[0]?.image}`)
    .toSorted();
/** Ends deleted Pods and makes all others ready, as the nodes would. */
function run(world: World): void {
  for (const { metadata } of world.list(Pod)) {
    if (metadata.deletionTimestamp !== undefined) world.end(metadata.name ?? "");
    else world.setPod(metadata.name ?? "", "Running", true);
  }
  settle(world);
}

describe("a DaemonSet", () => {
  test("stores its template with sorted keys, which clients compare byte by byte", () => {
    const world = start({
      template: { spec: { containers: [{ name: "c", image: "i" }] }, metadata: { labels: { app: "a" } } },
    });
    settle(world);
    expect(JSON.stringify(world.list(ControllerRevision)[0]?.data)).toBe(
      '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"i","name":"c"}]}}}}',
    );
  });

  test("runs a Pod on every node, pinned to it, with the daemon tolerations", () => {
    const world = start();
    settle(world);
    const hash = world.list(ControllerRevision)[0]?.metadata.labels?.["controller-revision-hash"];
    expect(images(world)).toEqual(["n1 app:1", "n2 app:1", "n3 app:1"]);
    expect(world.list(Pod)[0]).toMatchObject({
      metadata: {
        labels: { app: "a", "controller-revision-hash": hash, "pod-template-generation": "1" },
        ownerReferences: [{ kind: "DaemonSet", name: "d", controller: true }],
      },
      spec: {
        tolerations: expect.arrayContaining([{ key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute" }]),
      },
    });
    expect(status(world)).toEqual({
      observedGeneration: 1,
      desiredNumberScheduled: 3,
      currentNumberScheduled: 3,
      updatedNumberScheduled: 3,
      numberMisscheduled: 0,
      numberReady: 0,
      numberUnavailable: 3,
    });
    run(world);
    expect(status(world)).toMatchObject({ numberReady: 3, numberAvailable: 3 });
    expect(status(world)?.numberUnavailable).toBeUndefined();
  });

  test("follows nodes that appear, and deletes Pods from nodes that no longer match", () => {
    const world = start({ template: template("1", { nodeSelector: { disk: "fast" } }) }, []);
    addNode(world, "slow");
    addNode(world, "fast", {}, { disk: "fast" });
    settle(world);
    expect(images(world)).toEqual(["fast app:1"]);
    world.change(Node, "slow", { metadata: { labels: { disk: "fast" } } });
    settle(world);
    expect(images(world)).toEqual(["fast app:1", "slow app:1"]);
    world.change(Node, "fast", { metadata: { labels: { disk: null } } });
    settle(world);
    expect(images(world)).toEqual(["slow app:1"]);
  });

  test("avoids tainted nodes, and leaves running Pods there unless the taint is NoExecute", () => {
    const world = start({}, ["n1"]);
    addNode(world, "tainted", { taints: [{ key: "gpu", effect: "NoSchedule" }] });
    addNode(world, "cordoned", { unschedulable: true });
    settle(world);
    expect(images(world)).toEqual(["cordoned app:1", "n1 app:1"]);
    world.change(Node, "n1", { spec: { taints: [{ key: "gpu", effect: "NoSchedule" }] } });
    settle(world);
    expect(images(world)).toEqual(["cordoned app:1", "n1 app:1"]);
    expect(status(world)).toMatchObject({ numberMisscheduled: 1, desiredNumberScheduled: 1 });
    world.change(Node, "n1", { spec: { taints: [{ key: "gpu", effect: "NoExecute" }] } });
    settle(world);
    expect(images(world)).toEqual(["cordoned app:1"]);
  });

  test("replaces a failed Pod", () => {
    const world = start({}, ["n1"]);
    settle(world);
    const name = world.list(Pod)[0]?.metadata.name ?? "";
    world.setPod(name, "Failed");
    settle(world);
    expect(world.events).toContain(`FailedDaemonPod: Found failed daemon pod default/${name} on node n1, will try to kill it`);
    world.end(name);
    settle(world);
    expect(world.list(Pod)[0]?.metadata.name).not.toBe(name);
  });

  test("updates one node at a time, and those without an available Pod first", () => {
    const world = start();
    settle(world);
    run(world);
    world.setPod(world.list(Pod).find((pod) => nodeOf(pod) === "n3")?.metadata.name ?? "", "Running", false);
    world.change(DaemonSet, "d", { spec: { template: template("2") } });
    settle(world);
    expect(images(world)).toEqual(["n1 app:1", "n2 app:1"]);
    const isServing = (pod: CachedPod): boolean => isPodReady(pod) && pod.metadata.deletionTimestamp === undefined;
    for (let round = 0; round < 12; round++) {
      run(world);
      expect(world.list(Pod).filter(isServing).length).toBeGreaterThanOrEqual(2);
    }
    expect(images(world)).toEqual(["n1 app:2", "n2 app:2", "n3 app:2"]);
    expect(status(world)).toMatchObject({ updatedNumberScheduled: 3, numberAvailable: 3, observedGeneration: 2 });
  });

  test("with maxSurge runs the new Pod alongside the old one until it is available", () => {
    const rollingUpdate = { maxSurge: 1, maxUnavailable: 0 };
    const world = start({ updateStrategy: { type: "RollingUpdate", rollingUpdate } }, ["n1", "n2"]);
    settle(world);
    run(world);
    world.change(DaemonSet, "d", { spec: { template: template("2") } });
    settle(world);
    expect(images(world)).toEqual(["n1 app:1", "n1 app:2", "n2 app:1"]);
    run(world);
    expect(images(world)).toContain("n1 app:2");
    for (let round = 0; round < 8; round++) run(world);
    expect(images(world)).toEqual(["n1 app:2", "n2 app:2"]);
  });

  test("with OnDelete updates only deleted Pods", () => {
    const world = start({ updateStrategy: { type: "OnDelete" } }, ["n1", "n2"]);
    settle(world);
    run(world);
    world.change(DaemonSet, "d", { spec: { template: template("2") } });
    settle(world);
    world.delete(Pod, world.list(Pod).find((pod) => nodeOf(pod) === "n2")?.metadata.name ?? "");
    settle(world);
    expect(images(world)).toEqual(["n1 app:1", "n2 app:2"]);
  });

  test("keeps revisionHistoryLimit old revisions and rolls back to one", () => {
    const world = start({ revisionHistoryLimit: 1 }, []);
    settle(world);
    for (const version of ["2", "3", "4", "3"]) {
      world.change(DaemonSet, "d", { spec: { template: template(version) } });
      settle(world);
    }
    expect(
      world
        .list(ControllerRevision)
        .map(({ revision }) => revision)
        .toSorted(),
    ).toEqual([4, 5]);
  });

  test("creates nothing while it is being deleted", () => {
    const world = start();
    world.change(DaemonSet, "d", { metadata: { finalizers: ["foregroundDeletion"] } });
    world.delete(DaemonSet, "d");
    settle(world);
    expect(world.list(Pod)).toEqual([]);
  });
});
