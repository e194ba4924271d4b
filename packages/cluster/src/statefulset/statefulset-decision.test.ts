import {
  ControllerRevision,
  PersistentVolumeClaim,
  Pod,
  StatefulSet,
  type StatefulSetObject,
} from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Decision } from "../workload/write.ts";
import { decideStatefulSet } from "./statefulset-decision.ts";

function start(spec: object = {}): World {
  const world = new World();
  world.create(StatefulSet, {
    metadata: { name: "db" },
    spec: { serviceName: "db", replicas: 3, selector: { matchLabels: { app: "db" } }, template: template("1"), ...spec },
  });
  return world;
}
function template(version: string): StatefulSetObject["spec"]["template"] {
  return { metadata: { labels: { app: "db" } }, spec: { containers: [{ name: "main", image: `db:${version}` }] } };
}
const decide = (world: World) => (): Decision =>
  decideStatefulSet(
    {
      set: world.get(StatefulSet, "db"),
      pods: world.list(Pod),
      revisions: world.list(ControllerRevision),
      claims: world.list(PersistentVolumeClaim),
    },
    world.now,
  );
const settle = (world: World): Decision => world.settle(decide(world), true);
const run = (world: World, ...names: string[]): Decision => {
  for (const name of names) world.setPod(name, "Running", true);
  return settle(world);
};
const end = (world: World, name: string): Decision => {
  world.end(name);
  return settle(world);
};
const names = (world: World): string[] =>
  world
    .list(Pod)
    .map(({ metadata }) => `${metadata.name}${metadata.deletionTimestamp === undefined ? "" : " ends"}`)
    .toSorted();
const images = (world: World): string[] =>
  world
    .list(Pod)
    .map(({ metadata, spec }) => `${metadata.name} ${spec.containers[0]?.image}`)
    .toSorted();
const status = (world: World) => world.get(StatefulSet, "db").status;
const claimTemplates = [{ metadata: { name: "data" }, spec: { accessModes: ["ReadWriteOnce"] } }];

describe("a StatefulSet", () => {
  test("creates Pods in order, each when the previous one is ready", () => {
    const world = start();
    settle(world);
    expect(names(world)).toEqual(["db-0"]);
    run(world, "db-0");
    expect(names(world)).toEqual(["db-0", "db-1"]);
    run(world, "db-1");
    run(world, "db-2");
    expect(status(world)).toMatchObject({
      replicas: 3,
      readyReplicas: 3,
      availableReplicas: 3,
      currentReplicas: 3,
      updatedReplicas: 3,
    });
    expect(status(world)?.currentRevision).toBe(status(world)?.updateRevision);
  });

  test("gives its Pods stable names, host names and labels", () => {
    const world = start();
    settle(world);
    const revision = world.list(ControllerRevision)[0]?.metadata.name ?? "";
    expect(world.get(Pod, "db-0")).toMatchObject({
      metadata: {
        labels: {
          app: "db",
          "statefulset.kubernetes.io/pod-name": "db-0",
          "apps.kubernetes.io/pod-index": "0",
          "controller-revision-hash": revision,
        },
        ownerReferences: [{ kind: "StatefulSet", name: "db", controller: true }],
      },
      spec: { hostname: "db-0", subdomain: "db" },
    });
    world.change(Pod, "db-0", { metadata: { labels: { "apps.kubernetes.io/pod-index": null } } });
    settle(world);
    expect(world.get(Pod, "db-0").metadata.labels?.["apps.kubernetes.io/pod-index"]).toBe("0");
  });

  test("scales down from the highest ordinal, one at a time, while the others are healthy", () => {
    const world = start();
    for (const name of ["db-0", "db-1", "db-2"]) {
      settle(world);
      run(world, name);
    }
    world.change(StatefulSet, "db", { spec: { replicas: 1 } });
    settle(world);
    expect(names(world)).toEqual(["db-0", "db-1", "db-2 ends"]);
    world.setPod("db-0", "Running", false);
    end(world, "db-2");
    expect(names(world)).toEqual(["db-0", "db-1"]);
    run(world, "db-0");
    end(world, "db-1");
    expect(names(world)).toEqual(["db-0"]);
  });

  test("with Parallel creates and deletes all Pods at the same time", () => {
    const world = start({ podManagementPolicy: "Parallel" });
    settle(world);
    expect(names(world)).toEqual(["db-0", "db-1", "db-2"]);
    world.change(StatefulSet, "db", { spec: { replicas: 0 } });
    settle(world);
    expect(names(world)).toEqual(["db-0 ends", "db-1 ends", "db-2 ends"]);
  });

  test("updates from the highest ordinal down, each when the one above is ready", () => {
    const world = start({ podManagementPolicy: "Parallel" });
    settle(world);
    run(world, "db-0", "db-1", "db-2");
    const before = status(world)?.currentRevision;
    world.change(StatefulSet, "db", { spec: { template: template("2") } });
    settle(world);
    expect(names(world)).toEqual(["db-0", "db-1", "db-2 ends"]);
    end(world, "db-2");
    expect(images(world)).toEqual(["db-0 db:1", "db-1 db:1", "db-2 db:2"]);
    expect(status(world)).toMatchObject({ currentRevision: before, currentReplicas: 2, updatedReplicas: 1 });
    run(world, "db-2");
    end(world, "db-1");
    run(world, "db-1");
    end(world, "db-0");
    run(world, "db-0");
    expect(images(world)).toEqual(["db-0 db:2", "db-1 db:2", "db-2 db:2"]);
    expect(status(world)?.currentRevision).toBe(status(world)?.updateRevision);
    expect(status(world)?.currentRevision).not.toBe(before);
  });

  test("keeps the old revision below the partition, including recreated Pods", () => {
    const world = start({
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "RollingUpdate", rollingUpdate: { partition: 2 } },
    });
    settle(world);
    run(world, "db-0", "db-1", "db-2");
    world.change(StatefulSet, "db", { spec: { template: template("2") } });
    settle(world);
    end(world, "db-2");
    run(world, "db-2");
    world.delete(Pod, "db-0");
    settle(world);
    expect(images(world)).toEqual(["db-0 db:1", "db-1 db:1", "db-2 db:2"]);
  });

  test("with OnDelete updates only deleted Pods", () => {
    const world = start({ podManagementPolicy: "Parallel", updateStrategy: { type: "OnDelete" } });
    settle(world);
    run(world, "db-0", "db-1", "db-2");
    world.change(StatefulSet, "db", { spec: { template: template("2") } });
    settle(world);
    world.delete(Pod, "db-1");
    settle(world);
    expect(images(world)).toEqual(["db-0 db:1", "db-1 db:2", "db-2 db:1"]);
  });

  test("rolls back by making the old revision the newest", () => {
    const world = start({ replicas: 0 });
    settle(world);
    const [first] = world.list(ControllerRevision);
    world.change(StatefulSet, "db", { spec: { template: template("2") } });
    settle(world);
    world.change(StatefulSet, "db", { spec: { template: template("1") } });
    settle(world);
    expect(world.list(ControllerRevision)).toHaveLength(2);
    expect(world.get(ControllerRevision, first?.metadata.name ?? "").revision).toBe(3);
    expect(status(world)?.updateRevision).toBe(first?.metadata.name);
  });

  test("keeps revisionHistoryLimit old revisions", () => {
    const world = start({ replicas: 0, revisionHistoryLimit: 1 });
    for (const version of ["2", "3", "4"]) {
      settle(world);
      world.change(StatefulSet, "db", { spec: { template: template(version) } });
    }
    settle(world);
    expect(world.list(ControllerRevision).map(({ revision }) => revision)).toEqual([3, 4]);
  });

  test("recreates a failed Pod under its name", () => {
    const world = start({ replicas: 1 });
    settle(world);
    const { uid } = world.get(Pod, "db-0").metadata;
    world.setPod("db-0", "Failed");
    settle(world);
    end(world, "db-0");
    expect(world.get(Pod, "db-0").metadata.uid).not.toBe(uid);
    expect(world.events).toContain("RecreatingFailedPod: StatefulSet default/db is recreating failed Pod db-0");
  });

  test("waits for minReadySeconds and requeues for that time", () => {
    const world = start({ replicas: 2, minReadySeconds: 10 });
    settle(world);
    expect(run(world, "db-0").requeueAfterMs).toBe(10_000);
    expect(names(world)).toEqual(["db-0"]);
    world.now += 10_000;
    settle(world);
    expect(names(world)).toEqual(["db-0", "db-1"]);
  });

  test("creates each Pod's claims before the Pod, and keeps them", () => {
    const world = start({ replicas: 1, volumeClaimTemplates: claimTemplates });
    settle(world);
    expect(world.get(PersistentVolumeClaim, "data-db-0").metadata.labels).toEqual({ app: "db" });
    expect(world.get(PersistentVolumeClaim, "data-db-0").metadata.ownerReferences).toBeUndefined();
    expect(world.get(Pod, "db-0").spec.volumes).toEqual([{ name: "data", persistentVolumeClaim: { claimName: "data-db-0" } }]);
    run(world, "db-0");
    world.change(StatefulSet, "db", { spec: { replicas: 0 } });
    settle(world);
    end(world, "db-0");
    expect(world.list(PersistentVolumeClaim)).toHaveLength(1);
    expect(world.get(PersistentVolumeClaim, "data-db-0").metadata.ownerReferences).toBeUndefined();
  });

  test("sets owners of claims by the retention policy, and takes them back on scale-up", () => {
    const persistentVolumeClaimRetentionPolicy = { whenDeleted: "Delete", whenScaled: "Delete" };
    const world = start({ replicas: 1, volumeClaimTemplates: claimTemplates, persistentVolumeClaimRetentionPolicy });
    settle(world);
    const owners = () => world.get(PersistentVolumeClaim, "data-db-0").metadata.ownerReferences?.map(({ kind }) => kind);
    expect(owners()).toEqual(["StatefulSet"]);
    run(world, "db-0");
    world.change(StatefulSet, "db", { spec: { replicas: 0 } });
    settle(world);
    expect(owners()).toEqual(["Pod"]);
    world.change(StatefulSet, "db", { spec: { replicas: 1 } });
    settle(world);
    expect(owners()).toEqual(["StatefulSet"]);
  });

  test("adopts only matching orphan Pods with its own name", () => {
    const world = start({ replicas: 1 });
    for (const name of ["db-0", "db-x", "db-01"]) {
      world.create(Pod, { metadata: { name, labels: { app: "db" } }, spec: { containers: [] } });
    }
    settle(world);
    const owned = world.list(Pod).filter(({ metadata }) => metadata.ownerReferences !== undefined);
    expect(owned.map(({ metadata }) => metadata.name)).toEqual(["db-0"]);
  });
});
