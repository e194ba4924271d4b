import { PersistentVolume, PersistentVolumeClaim, StorageClass } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import type { Decision } from "../workload/write.ts";
import { decideClaim } from "./claim-decision.ts";
import { decideVolume, volumeFailed } from "./volume-decision.ts";

function start(storageClass: object = {}): World {
  const world = new World();
  world.create(StorageClass, {
    metadata: { name: "standard", annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
    provisioner: "keelson.dev/directory",
    reclaimPolicy: "Delete",
    allowVolumeExpansion: true,
    ...storageClass,
  });
  return world;
}
function claim(world: World, spec: object = {}): void {
  const resources = { requests: { storage: "1Gi" } };
  world.create(PersistentVolumeClaim, {
    metadata: { name: "c" },
    spec: { accessModes: ["ReadWriteOnce"], resources, ...spec },
  });
}
const decide = (world: World, isUsed = false): Decision =>
  decideClaim({
    claim: world.get(PersistentVolumeClaim, "c"),
    volumes: world.list(PersistentVolume),
    classes: world.list(StorageClass),
    isUsed,
    pathOf: (uid) => `/volumes/${uid}`,
  });
const ofVolume = (world: World) => {
  const [volume] = world.list(PersistentVolume);
  if (volume === undefined) throw new Error("no volume");
  return decideVolume(volume, world.list(PersistentVolumeClaim)[0]);
};
function settle(world: World, isUsed = false): void {
  for (let round = 0; round < 5; round++) {
    world.settle(() => decide(world, isUsed));
    if (world.list(PersistentVolume).length > 0) world.perform(ofVolume(world).writes);
  }
}
const bound = (world: World) => world.get(PersistentVolumeClaim, "c");

describe("a claim", () => {
  test("is bound to a new directory through the default class", () => {
    const world = start();
    claim(world);
    settle(world);
    const { uid } = bound(world).metadata;
    expect(bound(world)).toMatchObject({
      metadata: { finalizers: ["kubernetes.io/pvc-protection"], annotations: { "pv.kubernetes.io/bind-completed": "yes" } },
      spec: { storageClassName: "standard", volumeName: `pvc-${uid}` },
      status: { phase: "Bound", capacity: { storage: "1Gi" }, accessModes: ["ReadWriteOnce"] },
    });
    expect(world.list(PersistentVolume)).toMatchObject([
      {
        metadata: { name: `pvc-${uid}`, annotations: { "pv.kubernetes.io/provisioned-by": "keelson.dev/directory" } },
        spec: { claimRef: { uid }, hostPath: { path: `/volumes/${uid}`, type: "DirectoryOrCreate" } },
        status: { phase: "Bound" },
      },
    ]);
  });

  test("waits for its first consumer if the class says so", () => {
    const world = start({ volumeBindingMode: "WaitForFirstConsumer" });
    claim(world);
    settle(world);
    expect(world.list(PersistentVolume)).toEqual([]);
    expect(bound(world).status?.phase).toBe("Pending");
    world.change(PersistentVolumeClaim, "c", { metadata: { annotations: { "volume.kubernetes.io/selected-node": "n" } } });
    settle(world);
    expect(bound(world).status?.phase).toBe("Bound");
  });

  test("binds to the smallest existing volume that fits", () => {
    const world = start();
    for (const [name, storage] of [
      ["small", "500Mi"],
      ["large", "5Gi"],
      ["right", "2Gi"],
    ] as const) {
      const spec = { capacity: { storage }, accessModes: ["ReadWriteOnce"], storageClassName: "", hostPath: { path: "/x" } };
      world.create(PersistentVolume, { metadata: { name }, spec });
    }
    claim(world, { storageClassName: "" });
    settle(world);
    expect(bound(world).spec?.volumeName).toBe("right");
    expect(bound(world).status?.capacity).toEqual({ storage: "2Gi" });
    expect(world.get(PersistentVolume, "right").spec?.claimRef?.uid).toBe(bound(world).metadata.uid);
  });

  test("expands on a larger request and never shrinks", () => {
    const world = start();
    claim(world);
    settle(world);
    world.change(PersistentVolumeClaim, "c", { spec: { resources: { requests: { storage: "2Gi" } } } });
    settle(world);
    expect(bound(world).status?.capacity).toEqual({ storage: "2Gi" });
    world.change(PersistentVolumeClaim, "c", { spec: { resources: { requests: { storage: "1Gi" } } } });
    expect(decide(world).writes).toEqual([]);
  });

  test("reports that its class does not allow expansion", () => {
    const world = start({ allowVolumeExpansion: false });
    claim(world);
    settle(world);
    world.change(PersistentVolumeClaim, "c", { spec: { resources: { requests: { storage: "2Gi" } } } });
    expect(decide(world).writes).toMatchObject([{ kind: "event", reason: "VolumeResizeFailed" }]);
  });

  test.each([
    ["no class is set and there is no default", { metadata: { annotations: null } }, {}, "no storage class is set"],
    ["its class does not exist", {}, { storageClassName: "gone" }, 'storageclass.storage.k8s.io "gone" not found'],
    ["its class has another provisioner", { provisioner: "other" }, {}, "external provisioner 'other'"],
    ["it requests a block device", {}, { volumeMode: "Block" }, "volumeMode Block cannot be provisioned"],
  ])("is pending with a reason if %s", (_when, storageClass, spec, note) => {
    const world = start();
    world.change(StorageClass, "standard", storageClass);
    claim(world, spec);
    settle(world);
    expect(bound(world).status?.phase).toBe("Pending");
    expect(decide(world).writes).toMatchObject([{ kind: "event", note: expect.stringContaining(note) }]);
  });

  test("is kept while a Pod uses it, then deleted with its directory", () => {
    const world = start();
    claim(world);
    settle(world);
    world.delete(PersistentVolumeClaim, "c");
    settle(world, true);
    expect(world.list(PersistentVolumeClaim)).toHaveLength(1);
    world.perform(decide(world).writes);
    expect(world.list(PersistentVolumeClaim)).toEqual([]);
    expect(ofVolume(world).removes).toMatch(/^\/volumes\/uid-/);
    world.perform(ofVolume(world).writes);
    world.perform(ofVolume(world).writes);
    expect(world.list(PersistentVolume)).toEqual([]);
  });

  test("is lost when its volume is deleted", () => {
    const world = start();
    claim(world);
    settle(world);
    const [volume] = world.list(PersistentVolume);
    world.change(PersistentVolume, volume?.metadata.name ?? "", { metadata: { finalizers: null } });
    world.delete(PersistentVolume, volume?.metadata.name ?? "");
    world.perform(decide(world).writes);
    expect(bound(world).status?.phase).toBe("Lost");
  });
});

describe("a volume", () => {
  test("with policy Retain is released and never bound again", () => {
    const world = start({ reclaimPolicy: "Retain" });
    claim(world);
    settle(world);
    world.delete(PersistentVolumeClaim, "c");
    world.perform(decide(world).writes);
    world.perform(ofVolume(world).writes);
    expect(ofVolume(world)).toEqual({ writes: [] });
    expect(world.list(PersistentVolume)[0]?.status?.phase).toBe("Released");
    claim(world);
    world.settle(() => decide(world));
    expect(world.list(PersistentVolume)).toHaveLength(2);
  });

  test("of another provisioner keeps its files", () => {
    const world = start();
    const spec = {
      persistentVolumeReclaimPolicy: "Delete",
      claimRef: { name: "c", namespace: "default", uid: "x" },
      hostPath: { path: "/home" },
    };
    const volume = world.create(PersistentVolume, { metadata: { name: "v" }, spec });
    expect(decideVolume(volume, undefined).removes).toBeUndefined();
  });

  test("is not deleted while it is bound", () => {
    const world = start();
    claim(world);
    settle(world);
    world.delete(PersistentVolume, world.list(PersistentVolume)[0]?.metadata.name ?? "");
    expect(ofVolume(world).writes).toEqual([]);
  });

  test("reports that its files could not be removed", () => {
    const world = start();
    claim(world);
    settle(world);
    const [volume] = world.list(PersistentVolume);
    if (volume === undefined) throw new Error("no volume");
    world.perform(volumeFailed(volume, "EACCES"));
    expect(world.list(PersistentVolume)[0]?.status).toEqual({ phase: "Failed", message: "EACCES" });
  });
});
