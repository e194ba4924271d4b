import { getController } from "@keelson/api-machinery";
import { Deployment, type DeploymentObject, Pod, ReplicaSet } from "@keelson/api-machinery/kinds";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideReplicaSetPods, decideReplicaSetStatus } from "../replicaset/replicaset-decision.ts";
import { isPodReady } from "../workload/pod-state.ts";
import { World } from "../workload/testing/world.ts";
import { decideCollision, decideDeployment } from "./deployment-decision.ts";

type Spec = Partial<DeploymentObject["spec"]>;

function start(spec: Spec = {}): World {
  const world = new World();
  world.create(Deployment, {
    metadata: { name: "web", annotations: { team: "a" } },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: "web" } },
      template: template("1"),
      progressDeadlineSeconds: 600,
      ...spec,
    },
  });
  return world;
}

function template(version: string): DeploymentObject["spec"]["template"] {
  return { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "main", image: `app:${version}` }] } };
}

/** Runs both controllers once. */
function round(world: World): boolean {
  let isMoving = false;
  const perform = (writes: Parameters<World["perform"]>[0], graceful = true): void => {
    isMoving ||= writes.some(({ kind }) => kind !== "event");
    world.perform(writes, graceful);
  };
  for (const deployment of world.list(Deployment)) {
    perform(decideDeployment({ deployment, replicaSets: world.list(ReplicaSet), pods: world.list(Pod) }, world.now).writes);
  }
  for (const { metadata } of world.list(ReplicaSet)) {
    const pods = () => world.list(Pod).filter((pod) => [metadata.uid, undefined].includes(getController(pod)?.uid));
    const replicaSet = () => world.get(ReplicaSet, metadata.name ?? "");
    perform(decideReplicaSetPods({ replicaSet: replicaSet(), pods: pods() }));
    perform(decideReplicaSetStatus({ replicaSet: replicaSet(), pods: pods() }, world.now).writes);
  }
  return isMoving;
}

function settle(world: World): void {
  for (let step = 0; step < 200; step++) if (!round(world)) return;
  throw new Error("the world does not settle");
}

/** Acts as the node: runs new Pods and ends deleted ones. */
function node(world: World): void {
  for (const pod of world.list(Pod)) {
    const name = pod.metadata.name ?? "";
    if (pod.metadata.deletionTimestamp !== undefined) world.end(name);
    else if (!isPodReady(pod)) world.setPod(name, "Running", true);
  }
}

function rollOut(world: World): void {
  for (let step = 0; step < 50; step++) {
    settle(world);
    node(world);
  }
}

const sizes = (world: World): Record<string, number | undefined> =>
  Object.fromEntries(
    world
      .list(ReplicaSet)
      .map((one) => [one.spec.template?.spec.containers[0]?.image ?? "", one.spec.replicas] as const)
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
const conditionOf = (world: World, type: string) =>
  world.get(Deployment, "web").status?.conditions?.find((condition) => condition.type === type);

describe("a Deployment", () => {
  test("creates a ReplicaSet with revision, size and inherited annotations", () => {
    const world = start();
    settle(world);
    const [replicaSet] = world.list(ReplicaSet);
    const hash = replicaSet?.metadata.labels?.["pod-template-hash"];
    expect(hash).toMatch(/^[bcdfghjklmnpqrstvwxz2456789]+$/);
    expect(replicaSet).toMatchObject({
      metadata: {
        name: `web-${hash}`,
        labels: { app: "web", "pod-template-hash": hash },
        annotations: {
          team: "a",
          "deployment.kubernetes.io/revision": "1",
          "deployment.kubernetes.io/desired-replicas": "3",
          "deployment.kubernetes.io/max-replicas": "4",
        },
        ownerReferences: [{ kind: "Deployment", name: "web", controller: true, blockOwnerDeletion: true }],
      },
      spec: { replicas: 3, selector: { matchLabels: { app: "web", "pod-template-hash": hash } } },
    });
    expect(world.list(Pod)).toHaveLength(3);
    expect(world.get(Deployment, "web")).toMatchObject({
      metadata: { annotations: { "deployment.kubernetes.io/revision": "1" } },
      status: { observedGeneration: 1, replicas: 3, updatedReplicas: 3, unavailableReplicas: 3 },
    });
    expect(world.get(Deployment, "web").status?.readyReplicas).toBeUndefined();
    expect(conditionOf(world, "Available")).toMatchObject({ status: "False", reason: "MinimumReplicasUnavailable" });
    expect(world.events).toEqual([`ScalingReplicaSet: Scaled up replica set web-${hash} from 0 to 3`]);
  });

  test("is available and complete when its Pods are available", () => {
    const world = start();
    rollOut(world);
    const { status } = world.get(Deployment, "web");
    expect(status).toMatchObject({ replicas: 3, readyReplicas: 3, availableReplicas: 3, updatedReplicas: 3 });
    expect(status?.unavailableReplicas).toBeUndefined();
    expect(conditionOf(world, "Available")?.status).toBe("True");
    expect(conditionOf(world, "Progressing")).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
  });

  test("rolls out a changed template, and rolls back as the newest revision", () => {
    const world = start();
    rollOut(world);
    world.change(Deployment, "web", { spec: { template: template("2") } });
    rollOut(world);
    expect(sizes(world)).toEqual({ "app:1": 0, "app:2": 3 });
    expect(world.get(Deployment, "web").metadata.annotations?.["deployment.kubernetes.io/revision"]).toBe("2");
    // What `kubectl rollout undo` does.
    world.change(Deployment, "web", { spec: { template: template("1") } });
    rollOut(world);
    expect(sizes(world)).toEqual({ "app:1": 3, "app:2": 0 });
    const first = world.list(ReplicaSet).find((one) => one.spec.replicas === 3);
    expect(first?.metadata.annotations).toMatchObject({
      "deployment.kubernetes.io/revision": "3",
      "deployment.kubernetes.io/revision-history": "1",
    });
  });

  test("continues after a revision beyond the integers of JavaScript", () => {
    const world = start();
    rollOut(world);
    const [first] = world.list(ReplicaSet);
    const annotations = { "deployment.kubernetes.io/revision": "3546343826724305832" };
    world.change(ReplicaSet, first?.metadata.name ?? "", { metadata: { annotations } });
    world.change(Deployment, "web", { spec: { template: template("2") } });
    rollOut(world);
    const revision = world.get(Deployment, "web").metadata.annotations?.["deployment.kubernetes.io/revision"];
    expect(revision).toBe("3546343826724305833");
  });

  test("respects maxSurge and maxUnavailable throughout a rollout", () => {
    const bound = fc.oneof(
      fc.integer({ min: 0, max: 4 }),
      fc.integer({ min: 0, max: 100 }).map((share) => `${share}%`),
    );
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        bound,
        bound,
        fc.infiniteStream(fc.nat(6)),
        (replicas, maxSurge, maxUnavailable, choices) => {
          const share = (value: number | string, round: (x: number) => number): number =>
            typeof value === "number" ? value : round((replicas * Number(value.slice(0, -1))) / 100);
          const surge = share(maxSurge, Math.ceil);
          const unavailable = Math.max(share(maxUnavailable, Math.floor), surge === 0 ? 1 : 0);
          const world = start({ replicas, strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge, maxUnavailable } } });
          rollOut(world);
          world.change(Deployment, "web", { spec: { template: template("2") } });
          for (let step = 0; step < 300; step++) {
            round(world);
            const pods = world.list(Pod).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
            expect(pods.length).toBeLessThanOrEqual(replicas + surge);
            expect(pods.filter(isPodReady).length).toBeGreaterThanOrEqual(Math.min(replicas - unavailable, replicas));
            // One Pod at a time, in any order.
            const waiting = world.list(Pod).filter((pod) => !isPodReady(pod) || pod.metadata.deletionTimestamp !== undefined);
            const pod = waiting[(choices.next().value ?? 0) % Math.max(waiting.length, 1)];
            if (pod?.metadata.deletionTimestamp !== undefined) world.end(pod.metadata.name ?? "");
            else if (pod !== undefined) world.setPod(pod.metadata.name ?? "", "Running", true);
          }
          expect(sizes(world)).toEqual({ "app:1": 0, "app:2": replicas });
        },
      ),
      { numRuns: 12 },
    );
  });

  test("with Recreate creates no new Pod before the last old one is deleted", () => {
    const world = start({ strategy: { type: "Recreate" } });
    rollOut(world);
    world.change(Deployment, "web", { spec: { template: template("2") } });
    settle(world);
    expect(world.list(Pod).every(({ metadata }) => metadata.deletionTimestamp !== undefined)).toBe(true);
    expect(sizes(world)).toEqual({ "app:1": 0 });
    const [first, ...others] = world.list(Pod).map(({ metadata }) => metadata.name ?? "");
    for (const name of others) world.end(name);
    settle(world);
    expect(sizes(world)).toEqual({ "app:1": 0 });
    world.end(first ?? "");
    settle(world);
    expect(sizes(world)).toEqual({ "app:1": 0, "app:2": 3 });
  });

  test("scales in proportion while paused, without rolling out", () => {
    const world = start({
      replicas: 10,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } },
    });
    rollOut(world);
    world.change(Deployment, "web", { spec: { template: template("2") } });
    settle(world);
    expect(sizes(world)).toEqual({ "app:1": 8, "app:2": 5 });
    world.change(Deployment, "web", { spec: { paused: true, replicas: 15 } });
    settle(world);
    // The example of the Kubernetes documentation.
    expect(sizes(world)).toEqual({ "app:1": 11, "app:2": 7 });
    expect(conditionOf(world, "Progressing")).toMatchObject({ status: "Unknown", reason: "DeploymentPaused" });
    world.change(Deployment, "web", { spec: { paused: false } });
    rollOut(world);
    expect(sizes(world)).toEqual({ "app:1": 0, "app:2": 15 });
  });

  test("reports ProgressDeadlineExceeded at the deadline and not before", () => {
    const world = start({ progressDeadlineSeconds: 60 });
    settle(world);
    const observe = () =>
      decideDeployment({ deployment: world.get(Deployment, "web"), replicaSets: world.list(ReplicaSet), pods: [] }, world.now);
    expect(observe()).toMatchObject({ writes: [], requeueAfterMs: 61_000 });
    world.now += 60_000;
    expect(observe()).toMatchObject({ writes: [], requeueAfterMs: 1_000 });
    world.now += 1_000;
    settle(world);
    expect(conditionOf(world, "Progressing")).toMatchObject({ status: "False", reason: "ProgressDeadlineExceeded" });
    expect(observe().requeueAfterMs).toBeUndefined();
    // The rollout continues and clears the condition.
    rollOut(world);
    expect(conditionOf(world, "Progressing")).toMatchObject({ status: "True", reason: "NewReplicaSetAvailable" });
  });

  test("keeps revisionHistoryLimit old ReplicaSets", () => {
    const world = start({ revisionHistoryLimit: 1, replicas: 1 });
    for (const version of ["2", "3", "4"]) {
      rollOut(world);
      world.change(Deployment, "web", { spec: { template: template(version) } });
    }
    rollOut(world);
    expect(sizes(world)).toEqual({ "app:3": 0, "app:4": 1 });
  });

  test("adopts a matching orphan ReplicaSet and releases one that no longer matches", () => {
    const world = start();
    const orphan = world.create(ReplicaSet, {
      metadata: { name: "old", labels: { app: "web" } },
      spec: { replicas: 0, selector: { matchLabels: { app: "web", v: "0" } }, template: template("0") },
    });
    settle(world);
    expect(getController(world.get(ReplicaSet, "old"))?.name).toBe("web");
    world.change(ReplicaSet, "old", { metadata: { labels: { app: "other" } } });
    settle(world);
    expect(getController(world.get(ReplicaSet, "old"))).toBeUndefined();
    expect(orphan.metadata.name).toBe("old");
  });

  test("creates nothing while it is being deleted", () => {
    const world = start();
    world.change(Deployment, "web", { metadata: { finalizers: ["foregroundDeletion"] } });
    world.delete(Deployment, "web");
    settle(world);
    expect(world.list(ReplicaSet)).toEqual([]);
  });

  test("counts a hash collision only for a ReplicaSet of another owner", () => {
    const world = start();
    settle(world);
    const [own] = world.list(ReplicaSet);
    const deployment = world.get(Deployment, "web");
    if (own === undefined) throw new Error("no ReplicaSet");
    expect(decideCollision(deployment, own)).toEqual({ writes: [] });
    const foreign = { ...own, metadata: { ...own.metadata, ownerReferences: [] } };
    expect(decideCollision(deployment, foreign).writes).toMatchObject([
      { kind: "status", object: { status: { collisionCount: 1 } } },
    ]);
    world.perform(decideCollision(deployment, foreign).writes);
    world.delete(ReplicaSet, own.metadata.name ?? "");
    settle(world);
    expect(world.list(ReplicaSet)[0]?.metadata.name).not.toBe(own.metadata.name);
  });
});
