import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "../../api/app.ts";
import type { Backup } from "../../api/backup.ts";
import type { Group } from "../../api/group.ts";
import type { Restore, RestoreSpec } from "../../api/restore.ts";
import { EffectDriver } from "../../testing/effect-driver.ts";
import { decideRestore } from "./restore-decision.ts";

const appSpec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  stopped: true,
  backup: { enabled: true },
  components: [{ name: "redis", groups: [{ name: "nodes", replicas: 3, storage: { size: "1Gi" } }] }],
};
const artifact = {
  path: "default/cache/nightly-1/1/data",
  sizeBytes: 100,
  sha256: "aa",
  storedBytes: 100,
  storedSha256: "aa",
  keys: 10,
  expiringKeys: 2,
  format: "rdb",
  programVersion: "7.0.15",
};
const backup = {
  apiVersion: "middleware.io/v1alpha1",
  kind: "Backup",
  metadata: { name: "nightly", namespace: "default" },
  spec: { app: { name: "cache" }, storage: { volume: { claimName: "backups" } } },
  status: { phase: "Completed", artifact, appSpec, component: "redis", group: "nodes", image: "redis:7.0" },
} as unknown as DeepReadonly<Backup>;

interface World {
  backup: DeepReadonly<Backup> | undefined;
  app: DeepReadonly<App> | undefined;
  readyReplicas: number;
  claims: number;
  primary: { pod: string; epoch: number } | undefined;
}

function createDriver(spec: Partial<RestoreSpec>) {
  const world: World = { backup, app: undefined, readyReplicas: 0, claims: 0, primary: { pod: "cache-0", epoch: 1 } };
  const restore: Restore = {
    apiVersion: "middleware.io/v1alpha1",
    kind: "Restore",
    metadata: { name: "again", namespace: "default", uid: "restore-uid", generation: 1 },
    spec: { backup: { name: "nightly" }, ...spec },
  };
  const driver = new EffectDriver<Restore>(restore, (object, { pods, now }) =>
    decideRestore({
      restore: object,
      backup: world.backup,
      app: world.app,
      group: {
        spec: {},
        status: { replicas: 3, readyReplicas: world.readyReplicas, primary: world.primary },
      } as DeepReadonly<Group>,
      primary: world.app?.status?.phase === "Running" ? "10.0.0.1" : undefined,
      pods: [...pods.values()],
      claims: Array.from({ length: world.claims }, (_, index) => ({
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: { name: `claim-${index}`, namespace: "default", uid: `claim-${index}` },
      })),
      command: ["transfer"],
      now,
    }),
  );
  return { driver, world, status: () => driver.object?.status };
}

const appOf = (phase: string, annotations = {}): DeepReadonly<App> =>
  ({
    apiVersion: "middleware.io/v1alpha1",
    kind: "App",
    metadata: { name: "cache", namespace: "default", uid: "app-uid", annotations },
    spec: appSpec,
    status: { phase },
  }) as unknown as DeepReadonly<App>;
const own = { "middleware.io/restored-by": "restore-uid" };
const workOf = (driver: EffectDriver<Restore>) =>
  JSON.parse(driver.runningPod().spec.containers[0]?.env?.find(({ name }) => name === "KEELSON_TRANSFER")?.value ?? "{}");

describe("a Restore into a new App", () => {
  it("verifies the data, creates the App with the spec of the backup, loads, and waits for the replicas", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    driver.settle();
    expect(status()?.phase).toBe("Checking");
    expect(workOf(driver)).toMatchObject({ kind: "check", artifact });
    expect(driver.created).toEqual([]);
    driver.endPod({ ok: true });
    driver.settle();
    expect(status()?.phase).toBe("Creating");
    const [created] = driver.created as App[];
    expect(created).toMatchObject({ kind: "App", metadata: { name: "cache", annotations: own } });
    expect(created?.metadata.ownerReferences).toBeUndefined();
    expect(created?.spec).toEqual({ ...appSpec, stopped: undefined });
    world.app = appOf("Running", own);
    driver.settle();
    expect(workOf(driver)).toMatchObject({ kind: "load", agent: "http://10.0.0.1:50052" });
    driver.endPod({ ok: true, keys: 9, expiringKeys: 1 });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Syncing", keys: 9 });
    world.readyReplicas = 3;
    driver.settle();
    expect(status()).toMatchObject({ phase: "Completed", message: "restored 9 keys of Backup nightly" });
    expect(driver.pods.size).toBe(0);
  });

  it.each([
    ["says that the data may have been replaced if the agent dies during its only attempt", undefined, true],
    [
      "does not say that if the program has refused the data",
      { ok: false, error: "refused", isFinal: false, isDataKept: true },
      false,
    ],
  ])("%s", (_, result, isUnknown) => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache", maxRetries: 0 });
    world.app = appOf("Running");
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    expect(workOf(driver)).toMatchObject({ kind: "load" });
    driver.endPod(result ?? { ok: false, error: "the connection to the agent was lost", isFinal: false });
    driver.settle();
    expect(status()?.phase).toBe("Failed");
    expect(status()?.message?.includes("the data of the App may have been replaced")).toBe(isUnknown);
  });

  it("is refused with a target if the log was not archived", () => {
    const { driver, status } = createDriver({ app: { name: "cache" }, target: { latest: true } });
    driver.settle();
    expect(status()).toMatchObject({
      phase: "Failed",
      message: "spec.target: the log was not archived when Backup nightly was taken",
    });
    expect([driver.created, driver.pods.size]).toEqual([[], 0]);
  });

  it("creates nothing if the data is damaged", () => {
    const { driver, status } = createDriver({ app: { name: "cache" } });
    driver.settle();
    driver.endPod({ ok: false, error: "the stored data has 3 bytes instead of 100", isFinal: true });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: "the stored data has 3 bytes instead of 100" });
    expect(driver.created).toEqual([]);
  });

  it("does not use an App that a user created in the meantime", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    world.app = appOf("Running");
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining("set spec.overwrite") });
  });

  it("is refused if a deleted App has left volumes, without a confirmation", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    world.claims = 1;
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining('set spec.overwrite to "cache"') });
    expect(driver.created).toEqual([]);
    const confirmed = createDriver({ app: { name: "cache" }, overwrite: "cache" });
    confirmed.world.claims = 1;
    confirmed.driver.settle();
    confirmed.driver.endPod({ ok: true });
    confirmed.driver.settle();
    expect(confirmed.driver.created.length).toBe(1);
  });

  it("ends when its App does not run before the timeout", () => {
    const { driver, status } = createDriver({ app: { name: "cache" }, timeout: "10m" });
    driver.settle();
    driver.endPod({ ok: true });
    expect(driver.settle()).toBe(600_000);
    driver.now += 600_000;
    driver.settle();
    expect(status()).toMatchObject({
      phase: "Failed",
      message: expect.stringContaining("Creating exceeded the timeout of 10m"),
    });
  });

  it("fails if its Backup is deleted before the data is loaded", () => {
    for (const left of [
      undefined,
      { ...backup, metadata: { ...backup.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } },
    ]) {
      const { driver, world, status } = createDriver({ app: { name: "cache" } });
      driver.settle();
      world.backup = left;
      driver.settle();
      expect(status()).toMatchObject({
        phase: "Failed",
        message: expect.stringMatching(/^Backup nightly (was|is being) deleted$/),
      });
    }
  });

  it("completes with what it has recorded of a Backup that is deleted while the data is loaded", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    world.app = appOf("Running", own);
    driver.settle();
    expect(status()?.phase).toBe("Loading");
    world.backup = undefined;
    driver.settle();
    driver.endPod({ ok: false, error: "unreachable", isFinal: false });
    driver.now += driver.settle() ?? 0;
    driver.settle();
    expect(workOf(driver)).toMatchObject({ kind: "load", artifact });
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    world.readyReplicas = 3;
    driver.settle();
    expect(status()?.phase).toBe("Completed");
  });

  it("waits for a running backup, and refuses a failed one", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    world.backup = undefined;
    driver.settle();
    expect(status()).toMatchObject({ phase: "Pending", message: "Backup nightly not found" });
    world.backup = { ...backup, status: { phase: "Running" } };
    driver.settle();
    expect(status()?.message).toBe("waiting for the Backup nightly to complete");
    world.backup = { ...backup, status: { phase: "Failed" } };
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: "Backup nightly has failed" });
  });

  it("ends the same way if the controller crashes after every effect", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" } });
    driver.settle(1);
    driver.endPod({ ok: true });
    driver.settle(1);
    world.app = appOf("Running", own);
    driver.settle(1);
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    world.readyReplicas = 3;
    driver.settle(1);
    expect(status()?.phase).toBe("Completed");
    expect(driver.performed.filter(({ kind }) => kind === "apply").length).toBe(2);
  });
});

describe("a Restore into an existing App", () => {
  it("is refused without a confirmation that names the App", () => {
    for (const overwrite of [undefined, "yes", "other"]) {
      const { driver, world, status } = createDriver({ app: { name: "cache" }, ...(overwrite ? { overwrite } : {}) });
      world.app = appOf("Running");
      driver.settle();
      expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining('set spec.overwrite to "cache"') });
      expect(driver.pods.size).toBe(0);
    }
  });

  it("is verified by the program of the App before it is loaded", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache" });
    world.app = appOf("Running");
    driver.settle();
    expect(workOf(driver)).toMatchObject({ kind: "check", agent: "http://10.0.0.1:50052" });
    driver.endPod({ ok: true });
    driver.settle();
    expect(status()?.phase).toBe("Loading");
    expect(driver.created).toEqual([]);
  });

  it("waits for a primary", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache" });
    world.app = appOf("Stopped");
    expect(driver.settle()).toBe(5_000);
    expect(status()?.message).toBe("the App cache has no primary that responds");
  });

  it("loads the data again if the primary changes before all replicas have it", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache" });
    world.app = appOf("Running");
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Syncing", loadedInto: { pod: "cache-0", epoch: 1 } });
    Object.assign(world, { primary: { pod: "cache-1", epoch: 2 }, readyReplicas: 3 });
    driver.settle();
    expect(status()?.phase).toBe("Loading");
    expect(workOf(driver).kind).toBe("load");
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Completed", loadedInto: { pod: "cache-1", epoch: 2 } });
  });

  it("fails if the primary changes after every load, instead of loading forever", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache", maxRetries: 2 });
    world.app = appOf("Running");
    driver.settle();
    driver.endPod({ ok: true });
    for (let epoch = 1; epoch <= 3; epoch += 1) {
      driver.settle();
      expect(status()?.phase).toBe("Loading");
      driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
      driver.settle();
      Object.assign(world, { primary: { pod: `cache-${epoch % 2}`, epoch: epoch + 1 } });
    }
    driver.settle();
    expect(status()).toMatchObject({
      phase: "Failed",
      message: "the primary changed from cache-0 to cache-1 after the data was loaded 3 times",
    });
  });

  it("ends when the replicas do not become ready before the timeout", () => {
    const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache", timeout: "10m" });
    world.app = appOf("Running");
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    expect(driver.settle()).toBe(600_000);
    driver.now += 600_000;
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining("0 of 3 Pods are ready") });
  });

  it("fails if keys are missing after the load, except those that may have expired", () => {
    for (const [keys, phase] of [
      [7, "Failed"],
      [8, "Completed"],
      [10, "Completed"],
      [11, "Failed"],
    ] as const) {
      const { driver, world, status } = createDriver({ app: { name: "cache" }, overwrite: "cache" });
      Object.assign(world, { app: appOf("Running"), readyReplicas: 3 });
      driver.settle();
      driver.endPod({ ok: true });
      driver.settle();
      driver.endPod({ ok: true, keys, expiringKeys: 0 });
      driver.settle();
      expect(status()?.phase, `${keys} keys`).toBe(phase);
    }
  });
});

describe("a verification", () => {
  it("uses a scratch App with one Pod, and deletes it with its volumes", () => {
    const { driver, world, status } = createDriver({ verify: true });
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    const [created] = driver.created as App[];
    expect(created).toMatchObject({
      metadata: { name: "again-scratch", ownerReferences: [{ kind: "Pod", name: "again-check-1", uid: "pod-1" }] },
      spec: { components: [{ name: "redis", groups: [{ name: "nodes", replicas: 1, storage: { size: "1Gi" } }] }] },
    });
    expect(created?.spec.backup).toBeUndefined();
    Object.assign(world, { app: appOf("Running", own), readyReplicas: 3, claims: 1 });
    driver.settle();
    driver.endPod({ ok: true, keys: 10, expiringKeys: 2 });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Completed", message: "verified 10 keys of Backup nightly" });
    // The garbage collector deletes the App with its owner.
    expect(driver.performed).toContainEqual(expect.objectContaining({ kind: "delete", uid: "pod-1" }));
    expect(driver.performed.some((effect) => effect.kind === "delete" && effect.type.kind === "App")).toBe(false);
    expect(driver.object?.metadata.finalizers).toHaveLength(1);
    world.app = undefined;
    driver.settle();
    expect(driver.performed.at(-1)).toMatchObject({ kind: "delete", key: { name: "claim-0" } });
    expect(driver.object?.metadata.finalizers).toHaveLength(1);
    world.claims = 0;
    driver.settle();
    expect(driver.object?.metadata.finalizers).toBeUndefined();
  });

  it("ends when the Pod that owns the scratch App is deleted", () => {
    const { driver, status } = createDriver({ verify: true });
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    driver.pods.clear();
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining("owns the scratch App, was deleted") });
  });

  it("never deletes volumes that it did not create", () => {
    const before = createDriver({ verify: true });
    before.world.claims = 1;
    before.driver.settle();
    expect(before.status()?.phase).toBe("Failed");
    expect(before.driver.performed.some(({ kind }) => kind === "delete")).toBe(false);
    // A user creates an App of this name in the meantime, and deletes it afterwards.
    const { driver, world, status } = createDriver({ verify: true });
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    Object.assign(world, { app: appOf("Running"), claims: 1 });
    driver.settle();
    expect(status()?.phase).toBe("Failed");
    world.app = undefined;
    driver.settle();
    const deletedKinds = driver.performed.flatMap((effect) => (effect.kind === "delete" ? [effect.type.kind] : []));
    expect(deletedKinds).not.toContain("PersistentVolumeClaim");
    expect(driver.object?.metadata.finalizers).toBeUndefined();
  });

  it("never uses or deletes an App that it did not create", () => {
    const { driver, world, status } = createDriver({ verify: true });
    Object.assign(world, { app: appOf("Running"), claims: 1 });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: expect.stringContaining("does not belong to this Restore") });
    expect(driver.performed.some(({ kind }) => kind === "delete")).toBe(false);
  });
});
