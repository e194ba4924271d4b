import type { DeepReadonly } from "@keelson/api-machinery";
import { describe, expect, it } from "vitest";
import type { App } from "../../api/app.ts";
import type { Backup, BackupSpec } from "../../api/backup.ts";
import type { Group } from "../../api/group.ts";
import type { Restore } from "../../api/restore.ts";
import type { Artifact } from "../../backup/artifact.ts";
import { EffectDriver } from "../../testing/effect-driver.ts";
import { decideBackup } from "./backup-decision.ts";
import type { SourceCandidate } from "./choose-source.ts";

const metadata = { name: "nightly", namespace: "default", uid: "0123456789", generation: 1 };
const artifact: Artifact = {
  path: "default/cache/nightly-01234567/1/data",
  sizeBytes: 100,
  sha256: "aa",
  storedBytes: 156,
  storedSha256: "bb",
  keys: 3,
  expiringKeys: 0,
  format: "rdb",
  programVersion: "7.0.15",
};
const group = {
  apiVersion: "middleware.io/v1alpha1",
  kind: "Group",
  metadata: { name: "cache-redis-nodes" },
  spec: {},
  status: { primary: { pod: "cache-redis-nodes-0", epoch: 1 } },
} as unknown as DeepReadonly<Group>;
const app = {
  apiVersion: "middleware.io/v1alpha1",
  kind: "App",
  metadata: { name: "cache" },
  spec: { plugin: { name: "redis", version: "1.0.0" }, runtime: { name: "redis", version: "7.0" } },
} as DeepReadonly<App>;
const replicas: readonly SourceCandidate[] = [
  { name: "cache-redis-nodes-0", ip: "10.0.0.1", role: { role: "primary", isInSync: true, offset: 10 } },
  {
    name: "cache-redis-nodes-1",
    ip: "10.0.0.2",
    role: { role: "replica", isInSync: true, offset: 10, primaryHost: "10.0.0.1" },
  },
];

const withTls: DeepReadonly<Group> = { ...group, spec: { ...group.spec, tls: { mode: "require" } } };

interface World {
  candidates: readonly SourceCandidate[];
  app: DeepReadonly<App> | undefined;
  verification: DeepReadonly<Restore> | undefined;
  hasClaim: boolean;
  hasTls: boolean;
}

function createDriver(more: Partial<BackupSpec> = {}) {
  const world: World = { candidates: replicas, app, verification: undefined, hasClaim: true, hasTls: false };
  const spec: BackupSpec = { app: { name: "cache" }, storage: { volume: { claimName: "backups", size: "1Gi" } }, ...more };
  const backup: Backup = { apiVersion: "middleware.io/v1alpha1", kind: "Backup", metadata: { ...metadata }, spec };
  const driver = new EffectDriver<Backup>(backup, (object, { pods, now }) =>
    decideBackup({
      backup: object,
      app: world.app,
      group: { group: world.hasTls ? withTls : group, component: "redis", name: "nodes" },
      candidates: world.candidates,
      image: "redis:7.0",
      pods: [...pods.values()],
      claim: world.hasClaim ? { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name: "backups" } } : undefined,
      verification: world.verification,
      command: ["transfer"],
      now,
    }),
  );
  return { driver, world, status: () => driver.object?.status };
}

const requestOf = (driver: EffectDriver<Backup>) =>
  JSON.parse(driver.runningPod().spec.containers[0]?.env?.find(({ name }) => name === "KEELSON_TRANSFER")?.value ?? "{}");

describe("a Backup", () => {
  it("is stored from a replica by a Pod, and is complete with the result of the Pod only", () => {
    const { driver, status } = createDriver();
    driver.settle();
    expect(status()).toMatchObject({ phase: "Running", source: { pod: "cache-redis-nodes-1", reason: "replica in sync" } });
    expect(requestOf(driver)).toMatchObject({
      kind: "backup",
      agent: "http://10.0.0.2:50052",
      path: "default/cache/nightly-01234567/1",
      storage: { kind: "volume", root: "/backups" },
    });
    driver.endPod({ ok: true, artifact });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Completed", artifact, appSpec: app.spec, component: "redis", group: "nodes" });
    expect(driver.pods.size).toBe(0);
  });

  it.each([
    [false, ["--result=/run/keelson/result"]],
    [true, ["--result=/run/keelson/result", "--agent-tls-dir=/etc/middleware-agent-tls"]],
  ])("passes the flag for TLS only to images that know it: TLS %s", (hasTls, args) => {
    const { driver, world } = createDriver();
    world.hasTls = hasTls;
    driver.settle();
    expect(driver.runningPod().spec.containers[0]?.args).toEqual(args);
    expect(driver.runningPod().spec.volumes?.some(({ name }) => name === "agent-tls")).toBe(hasTls);
  });

  it("keeps secrets out of the request and of the Pod's command", () => {
    const { driver } = createDriver({ encryption: { keySecret: { name: "key" } } });
    driver.settle();
    const [container] = driver.runningPod().spec.containers;
    const secrets = container?.env?.filter(({ valueFrom }) => valueFrom !== undefined);
    expect(secrets?.map(({ name }) => name)).toEqual(["AGENT_TOKEN", "BACKUP_ENCRYPTION_KEY"]);
    expect(driver.runningPod().spec).toMatchObject({
      automountServiceAccountToken: false,
      restartPolicy: "Never",
      activeDeadlineSeconds: 3_600,
    });
    expect(container?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    });
  });

  it("waits until a Pod is in sync, and for its App", () => {
    const { driver, world, status } = createDriver();
    world.candidates = [];
    expect(driver.settle()).toBe(5_000);
    expect(status()).toMatchObject({ phase: "Pending", message: "no Pod of the App is in sync and responds" });
    world.app = undefined;
    driver.settle();
    expect(status()?.message).toBe("App cache not found");
    Object.assign(world, { app, candidates: replicas });
    driver.settle();
    expect(status()?.phase).toBe("Running");
  });

  it("uses the primary if the replicas lack more than maxReplicationLag", () => {
    const { driver, world, status } = createDriver({ maxReplicationLag: "1Ki" });
    const [primary, replica] = replicas;
    const behind = (lag: number) =>
      [{ ...primary, role: { ...primary?.role, offset: 10 + lag } }, replica] as readonly SourceCandidate[];
    world.candidates = behind(1_025);
    driver.settle();
    expect(status()?.source).toMatchObject({ role: "primary", reason: expect.stringContaining("more than 1024 bytes") });
    const other = createDriver({ maxReplicationLag: "1Ki" });
    other.world.candidates = behind(1_024);
    other.driver.settle();
    expect(other.status()?.source).toMatchObject({ role: "replica", lagBytes: 1_024 });
  });

  it("retries a failed attempt with backoff in its own directory, and fails after its retries", () => {
    const { driver, status } = createDriver({ maxRetries: 1 });
    driver.settle();
    driver.endPod({ ok: false, error: "no space left", isFinal: false });
    expect(driver.settle()).toBe(5_000);
    expect(status()).toMatchObject({ phase: "Pending", message: expect.stringContaining("no space left") });
    driver.now += 5_000;
    driver.settle();
    expect(requestOf(driver).path).toBe("default/cache/nightly-01234567/2");
    driver.endPod({ ok: false, error: "no space left", isFinal: false });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: "no space left" });
    expect(status()?.artifact).toBeUndefined();
  });

  it("does not retry what cannot succeed", () => {
    const { driver, status } = createDriver();
    driver.settle();
    driver.endPod({ ok: false, error: "the encryption key must be 32 bytes", isFinal: true });
    driver.settle();
    expect(status()?.phase).toBe("Failed");
  });

  it.each([
    ["a Pod without a result", "Killed"],
    ["an invalid result", JSON.stringify({ ok: true })],
  ])("is not complete after %s", (_, message) => {
    const { driver, status } = createDriver();
    driver.settle();
    driver.endPod(message);
    driver.settle();
    expect(status()).toMatchObject({ phase: "Pending", transfers: 1 });
  });

  it("is not complete if a successful Pod reports no data", () => {
    const { driver, status } = createDriver();
    driver.settle();
    driver.endPod({ ok: true });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: "the Pod reported no data" });
  });

  it("is not complete if the data had to be encrypted and was not", () => {
    const { driver, status } = createDriver({ encryption: { keySecret: { name: "key" } } });
    driver.settle();
    expect(requestOf(driver).mustEncrypt).toBe(true);
    driver.endPod({ ok: true, artifact });
    driver.settle();
    expect(status()).toMatchObject({ phase: "Failed", message: "the Pod stored the data without encryption" });
    expect(status()?.artifact).toBeUndefined();
  });

  it("deletes a Pod that exceeds its timeout before it starts another one", () => {
    const { driver, status } = createDriver({ timeout: "10m" });
    const waitMs = driver.settle() ?? 0;
    expect(waitMs).toBe(600_000);
    driver.now += waitMs;
    driver.settle();
    expect(driver.pods.size).toBe(0);
    expect(status()).toMatchObject({ phase: "Pending", message: expect.stringContaining("exceeded its timeout") });
    driver.now += 5_000;
    driver.settle();
    expect(driver.runningPod().metadata.name).toBe("nightly-backup-2");
  });

  it("retries when a Pod could not be created within its timeout", () => {
    const { driver, status } = createDriver({ timeout: "10m" });
    // The controller records the attempt, and crashes.
    while (status()?.transfer === undefined) driver.step();
    driver.now += 600_000;
    driver.settle();
    expect(driver.pods.size).toBe(0);
    expect(status()).toMatchObject({
      phase: "Pending",
      message: expect.stringContaining("could not be created within its timeout"),
    });
  });

  it("never runs two Pods, and ends the same way, if the controller crashes after every effect", () => {
    const { driver, status } = createDriver();
    driver.settle(1);
    expect(driver.pods.size).toBe(1);
    driver.endPod({ ok: false, error: "broken", isFinal: false });
    driver.settle(1);
    driver.now += 5_000;
    driver.settle(1);
    driver.endPod({ ok: true, artifact });
    driver.settle(1);
    expect(status()).toMatchObject({ phase: "Completed", artifact });
    const applied = driver.performed.filter(({ kind }) => kind === "apply");
    expect(applied.length).toBe(2);
  });

  it("creates a missing claim with the requested size, and none without a size", () => {
    const { driver, world } = createDriver();
    world.hasClaim = false;
    driver.settle();
    expect(driver.created).toMatchObject([
      { kind: "PersistentVolumeClaim", metadata: { name: "backups" }, spec: { resources: { requests: { storage: "1Gi" } } } },
    ]);
    const other = createDriver({ storage: { volume: { claimName: "backups" } } });
    other.world.hasClaim = false;
    other.driver.settle();
    expect(other.driver.created).toEqual([]);
  });

  it("with verify is verified by a Restore, whose outcome is a condition", () => {
    const { driver, world, status } = createDriver({ verify: true });
    driver.settle();
    driver.endPod({ ok: true, artifact });
    driver.settle();
    expect(driver.created).toMatchObject([{ kind: "Restore", metadata: { name: "nightly-verify" }, spec: { verify: true } }]);
    expect(status()?.conditions).toContainEqual(expect.objectContaining({ type: "Verified", status: "Unknown" }));
    world.verification = {
      ...(driver.created[0] as Restore),
      status: { phase: "Failed", message: "the stored data is damaged" },
    };
    driver.settle();
    expect(status()?.phase).toBe("Completed");
    expect(status()?.conditions).toContainEqual(
      expect.objectContaining({ type: "Verified", status: "False", message: "the stored data is damaged" }),
    );
  });
});

describe("the deletion of a Backup", () => {
  function completed(more: Partial<BackupSpec>) {
    const setup = createDriver(more);
    setup.driver.settle();
    setup.driver.endPod({ ok: true, artifact });
    setup.driver.settle();
    if (setup.driver.object) setup.driver.object.metadata.deletionTimestamp = "2026-01-02T00:00:00Z";
    return setup;
  }

  it("keeps the data by default", () => {
    const { driver } = completed({});
    driver.settle();
    expect(driver.object).toBeUndefined();
    expect(driver.pods.size).toBe(0);
  });

  it("with the policy Delete deletes the directory of all attempts, and retries until it succeeds", () => {
    const { driver } = completed({ deletionPolicy: "Delete" });
    driver.settle();
    expect(requestOf(driver)).toMatchObject({ kind: "delete", path: "default/cache/nightly-01234567" });
    for (let attempt = 0; attempt < 5; attempt += 1) {
      driver.endPod({ ok: false, error: "unreachable", isFinal: false });
      driver.now += driver.settle() ?? 0;
      driver.settle();
    }
    expect(driver.object).toBeDefined();
    driver.endPod({ ok: true });
    driver.settle();
    expect(driver.object).toBeUndefined();
  });

  it("ends immediately if the policy is changed, or if the volume was deleted", () => {
    const { driver } = completed({ deletionPolicy: "Delete" });
    driver.settle();
    if (driver.object) driver.object.spec.deletionPolicy = "Retain";
    driver.settle();
    expect(driver.object).toBeUndefined();
    const other = completed({ deletionPolicy: "Delete" });
    other.world.hasClaim = false;
    other.driver.settle();
    expect(other.driver.object).toBeUndefined();
  });

  it("ends a running Pod before it deletes the data", () => {
    const { driver } = createDriver({ deletionPolicy: "Delete" });
    driver.settle();
    expect(driver.runningPod().metadata.name).toBe("nightly-backup-1");
    if (driver.object) driver.object.metadata.deletionTimestamp = "2026-01-02T00:00:00Z";
    driver.settle();
    expect([...driver.pods.keys()]).toEqual(["nightly-delete-2"]);
  });
});
