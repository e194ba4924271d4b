import { PassThrough } from "node:stream";
import type { ResourceType } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import type { FlagValues } from "@keelson/operator/flags";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { App } from "../api/app.ts";
import { Backup, type BackupStatus } from "../api/backup.ts";
import { Restore } from "../api/restore.ts";
import { backupCommands } from "./backup.ts";

const namespace = "default";
const artifact = {
  path: "a",
  sizeBytes: 100,
  sha256: "aa",
  storedBytes: 156,
  storedSha256: "bb",
  keys: 3,
  expiringKeys: 0,
  format: "rdb",
  programVersion: "7.0.15",
  keyId: "cc",
};

let environment: TestEnvironment;
let client: Client;
beforeEach(async () => {
  environment = await startTestEnvironment({ crds: [App.crd, Backup.crd, Restore.crd] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  await client.create(App, {
    metadata: { name: "cache", namespace },
    spec: { plugin: { name: "redis", version: "1.0.0" }, runtime: { name: "redis", version: "7.0" } },
  });
}, 60_000);
afterEach(() => environment.stop());

function run(name: string, args: readonly string[], flags: FlagValues = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = backupCommands
    .find((each) => each.name === name)
    ?.run({
      args,
      flags: { namespace, ...flags },
      stdout,
      stderr,
      clock: systemClock,
      log: silentLogger,
      signal: AbortSignal.timeout(50_000),
      client: () => Promise.resolve(client),
    });
  return Promise.resolve(status).then((code) => ({
    code,
    out: String(stdout.read() ?? ""),
    err: String(stderr.read() ?? ""),
  }));
}

const report = (type: ResourceType, name: string, status: object) =>
  client.applyStatus(type, { metadata: { name, namespace }, status } as never, { fieldManager: "controller" });

describe("keelson app backup", { timeout: 30_000 }, () => {
  it("creates a Backup in the App's own volume, prints its progress and exits with its outcome", async () => {
    const running = run("backup", ["cache"], { name: "first" });
    const backup = await watched(client, Backup, "first", (each) => each !== undefined);
    expect(backup?.spec).toMatchObject({
      app: { name: "cache" },
      storage: { volume: { claimName: "cache-backups", size: String(8 * 1_073_741_824) } },
      deletionPolicy: "Retain",
    });
    const status: BackupStatus = { phase: "Running", message: "storing the data" };
    await report(Backup, "first", status);
    await report(Backup, "first", { phase: "Completed", message: "stored 3 keys", artifact });
    expect(await running).toEqual({ code: 0, out: "first: stored 3 keys\n", err: "Running: storing the data\n" });
  });

  it("exits with 1 if the backup fails", async () => {
    const running = run("backup", ["cache"], { name: "first", output: "json" });
    await watched(client, Backup, "first", (each) => each !== undefined);
    await report(Backup, "first", { phase: "Failed", message: "no space left" });
    const { code, out } = await running;
    expect(code).toBe(1);
    expect(JSON.parse(out)).toMatchObject({ kind: "Backup", status: { message: "no space left" } });
  });

  it("stores in a bucket, encrypts and verifies on request", async () => {
    const flags = {
      s3: "https://s3.example.com/backups/team/a",
      "s3-credentials": "s3",
      "key-secret": "key",
      verify: true as const,
      "delete-data": true as const,
      detach: true as const,
    };
    const { code, out } = await run("backup", ["cache"], flags);
    expect(code).toBe(0);
    expect(out).toMatch(/^cache-\d{14}\n$/);
    expect((await client.get(Backup, { namespace, name: out.trim() })).spec).toMatchObject({
      storage: {
        s3: { endpoint: "https://s3.example.com", bucket: "backups", prefix: "team/a", credentials: { name: "s3" } },
      },
      encryption: { keySecret: { name: "key" } },
      verify: true,
      deletionPolicy: "Delete",
    });
  });

  it.each([
    [{ claim: "a", s3: "https://h/bucket" }, "--claim and --s3 must not be used together"],
    [{ s3: "https://h/bucket" }, "--s3-credentials: required with --s3"],
    [{ s3: "bucket", "s3-credentials": "s3" }, '--s3: "bucket" must be https://HOST/BUCKET[/PREFIX]'],
  ])("rejects %j", async (flags, message) => {
    expect(await run("backup", ["cache"], flags)).toEqual({ code: 2, out: "", err: `${message}\n` });
  });

  it("names an App that does not exist", async () => {
    expect(await run("backup", ["other"])).toMatchObject({ code: 1, err: expect.stringContaining('"other" not found') });
  });
});

describe("keelson app backups", { timeout: 60_000 }, () => {
  it("lists the backups of an App, the newest first", async () => {
    expect(await run("backups", [])).toMatchObject({ out: "no backups\n" });
    const spec = { app: { name: "cache" }, storage: { volume: { claimName: "b" } } };
    for (const name of ["old", "new"]) await client.create(Backup, { metadata: { name, namespace }, spec });
    await client.create(Backup, { metadata: { name: "foreign", namespace }, spec: { ...spec, app: { name: "other" } } });
    const common = { phase: "Completed", artifact, source: { pod: "cache-redis-nodes-1", role: "replica", reason: "" } };
    await report(Backup, "old", { ...common, startedAt: "2026-01-01T00:00:00Z", completedAt: "2026-01-01T00:00:05Z" });
    await report(Backup, "new", { phase: "Failed", message: "no space left", startedAt: "2026-01-02T00:00:00Z" });
    const { out } = await run("backups", ["cache"]);
    const [heading = "", first = "", second = ""] = out.split("\n");
    expect(heading).toMatch(/^BACKUP +APP +PHASE +KEYS +BYTES +ENCRYPTED +VERIFIED +COMPLETED +NOTE$/);
    expect(first).toMatch(/^new +cache +Failed +no space left$/);
    expect(second).toMatch(/^old +cache +Completed +3 +156 +yes +2026-01-01T00:00:05Z +cache-redis-nodes-1$/);
  });
});

describe("keelson app restore", { timeout: 60_000 }, () => {
  beforeEach(async () => {
    const spec = { app: { name: "cache" }, storage: { volume: { claimName: "b" } } };
    await client.create(Backup, { metadata: { name: "nightly", namespace }, spec });
  });
  const created = async () => {
    const { items } = await client.list(Restore, { namespace });
    return items[0]?.metadata.name ?? "";
  };

  it("restores into an App, and says how to replace the data of one that exists", async () => {
    const { out } = await run("restore", ["cache"], { from: "nightly", detach: true });
    const restore = await client.get(Restore, { namespace, name: out.trim() });
    expect(restore.spec).toMatchObject({ backup: { name: "nightly" }, app: { name: "cache" } });
    expect(restore.spec.overwrite).toBeUndefined();
    await client.delete(Restore, { namespace, name: out.trim() });
    const running = run("restore", ["cache"], { from: "nightly", overwrite: true });
    await watched(client, Restore, await untilCreated(), (each) => each?.spec.overwrite === "cache");
    await report(Restore, await created(), { phase: "Failed", message: 'App cache exists: set spec.overwrite to "cache"' });
    expect(await running).toMatchObject({ code: 1, out: expect.stringContaining("or pass --overwrite") });
  });

  async function untilCreated(): Promise<string> {
    for (;;) {
      const name = await created();
      if (name !== "") return name;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  it("restores to a target, of which there is one", async () => {
    const specOf = async (flags: FlagValues) => {
      const { out } = await run("restore", ["cache"], { from: "nightly", detach: true, ...flags });
      return (await client.get(Restore, { namespace, name: out.trim() })).spec.target;
    };
    expect(await specOf({ latest: true })).toEqual({ latest: true });
    expect(await specOf({ "to-position": "0/3000148" })).toEqual({ position: "0/3000148" });
    const time = "2026-01-31T12:00:00Z";
    expect(await specOf({ "to-time": time })).toEqual({ time });
    const refused: FlagValues[] = [{ latest: true, "to-time": time }, { "to-time": "yesterday" }];
    for (const flags of refused)
      expect(await run("restore", ["cache"], { from: "nightly", ...flags })).toMatchObject({ code: 2 });
    const [metadata, rest] = [
      { name: "t", namespace },
      { backup: { name: "nightly" }, app: { name: "cache" } },
    ];
    const both = { ...rest, target: { time, position: "0/3" } };
    await expect(client.create(Restore, { metadata, spec: both })).rejects.toThrow("exactly one of time, position and latest");
    await client.create(Restore, { metadata, spec: { ...rest, target: { time } } });
    await expect(
      client.patch(Restore, metadata, { type: "merge", body: { spec: { target: { time: "2026-02-01T00:00:00Z" } } } }),
    ).rejects.toThrow("target must not change");
  });

  it("verifies without an App", async () => {
    const { out } = await run("restore", [], { from: "nightly", verify: true, detach: true });
    expect((await client.get(Restore, { namespace, name: out.trim() })).spec).toMatchObject({ verify: true });
    expect(await run("restore", [], { from: "nightly" })).toMatchObject({
      code: 2,
      err: "NAME: required, unless --verify is set\n",
    });
    expect(await run("restore", ["cache"], { from: "nightly", verify: true })).toMatchObject({ code: 2 });
  });

  it("rejects a backup that does not exist, and invalid objects", async () => {
    expect(await run("restore", ["cache"], { from: "none" })).toMatchObject({ code: 1 });
    const invalid = { backup: { name: "nightly" }, app: { name: "cache" }, verify: true };
    await expect(client.create(Restore, { metadata: { name: "x", namespace }, spec: invalid })).rejects.toThrow(
      "app must be set, unless verify is true",
    );
    const both = { volume: { claimName: "b" }, s3: { endpoint: "https://h", bucket: "abc", credentials: { name: "s" } } };
    for (const storage of [{}, both])
      await expect(
        client.create(Backup, { metadata: { name: "x", namespace }, spec: { app: { name: "cache" }, storage } }),
      ).rejects.toThrow("exactly one of volume and s3 must be set");
    await expect(
      client.patch(Backup, { namespace, name: "nightly" }, { type: "merge", body: { spec: { app: { name: "other" } } } }),
    ).rejects.toThrow("app, storage and encryption must not change");
  });
});
