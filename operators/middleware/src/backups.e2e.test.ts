import { randomBytes } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PersistentVolume, PersistentVolumeClaim, Pod, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { watched } from "@keelson/client/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectResp } from "./agent/redis/resp-client.ts";
import { App } from "./api/app.ts";
import { Backup } from "./api/backup.ts";
import { Restore } from "./api/restore.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

const namespace = "default";
let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

/** All keys and values of the primary of an App. */
async function contentOf(app: string): Promise<ReadonlyMap<string, string>> {
  const { client } = redis;
  const access = await client.get(Secret, { namespace, name: `${app}-access` });
  const { items } = await client.list(Pod, { namespace, labelSelector: `middleware.io/app=${app},middleware.io/role=primary` });
  const host = items[0]?.status?.podIP ?? "";
  const password = Buffer.from(access.data?.password ?? "", "base64").toString();
  const connection = await connectResp({ host, port: 6379, password, timeoutMs: 10_000, clock: systemClock });
  try {
    const keys = (await connection.command("KEYS", "*")) as readonly string[];
    const values = keys.length === 0 ? [] : ((await connection.command("MGET", ...keys)) as readonly string[]);
    return new Map(keys.map((key, index) => [key, values[index] ?? ""]));
  } finally {
    connection.close();
  }
}

async function finishedBackup(name: string) {
  const backup = await watched(redis.client, Backup, name, (each) =>
    ["Completed", "Failed"].includes(each?.status?.phase ?? ""),
  );
  return backup?.status;
}

async function finishedRestore(name: string) {
  const restore = await watched(redis.client, Restore, name, (each) =>
    ["Completed", "Failed"].includes(each?.status?.phase ?? ""),
  );
  return restore?.status;
}

/** Directory of the volume with the backups. */
async function backupFolder(): Promise<string> {
  const claim = await redis.client.get(PersistentVolumeClaim, { namespace, name: "backups" });
  const volume = await redis.client.get(PersistentVolume, { name: (claim.spec as { volumeName: string }).volumeName });
  return (volume as { spec?: { hostPath?: { path?: string } } }).spec?.hostPath?.path ?? "";
}

describe("backups of a Redis App", () => {
  it("are taken from a replica under writes, restored into a new and an existing App, verified, and refused if they are damaged", {
    timeout: 300_000,
  }, async () => {
    const { client } = redis;
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      components: [{ name: "redis", groups: [{ name: "nodes", replicas: 2, storage: { size: "64Mi" } }] }],
    });
    await redis.settled(1);
    await client.create(Secret, {
      metadata: { name: "backup-key", namespace },
      stringData: { key: randomBytes(32).toString("base64") },
    });
    const settings = {
      app: { name: "cache" },
      storage: { volume: { claimName: "backups", size: "256Mi" } },
      encryption: { keySecret: { name: "backup-key" } },
    };
    const primary = await redis.primary();
    await redis.command(primary, "SET", "large", randomBytes(4_500_000).toString("base64"));
    await redis.command(primary, "SET", "session", "expires", "EX", "100000");

    // Under writes.
    const writer = await redis.startWriter();
    while (writer.count < 200) await redis.command(primary, "PING");
    const before = await contentOf("cache");
    await client.create(Backup, {
      metadata: { name: "first", namespace },
      spec: { ...settings, deletionPolicy: "Delete", verify: true },
    });
    const first = await finishedBackup("first");
    expect(first, JSON.stringify(first)).toMatchObject({ phase: "Completed", source: { role: "replica" }, transfers: 1 });
    expect((await writer.stop()).lost).toEqual([]);
    expect(first?.artifact?.keys).toBeGreaterThanOrEqual(before.size);
    expect(first?.artifact?.programVersion).toMatch(/^7\.0\./);
    expect(first?.artifact?.storedBytes).toBeGreaterThan(first?.artifact?.sizeBytes ?? 0);

    // Quiet: every key is compared.
    const content = await contentOf("cache");
    await client.create(Backup, { metadata: { name: "second", namespace }, spec: settings });
    const second = await finishedBackup("second");
    expect(second?.artifact).toMatchObject({ keys: content.size, expiringKeys: 1 });
    await client.create(Restore, {
      metadata: { name: "copy", namespace },
      spec: { backup: { name: "second" }, app: { name: "copy" } },
    });
    const copy = await finishedRestore("copy");
    expect(copy, JSON.stringify(copy)).toMatchObject({ phase: "Completed", keys: content.size });
    expect(await contentOf("copy")).toEqual(content);

    // Into an existing App only with a confirmation.
    await redis.command(primary, "FLUSHALL");
    await redis.command(primary, "SET", "newer", "value");
    await client.create(Restore, {
      metadata: { name: "unconfirmed", namespace },
      spec: { backup: { name: "second" }, app: { name: "cache" } },
    });
    expect(await finishedRestore("unconfirmed")).toMatchObject({ phase: "Failed", message: /set spec.overwrite to "cache"/ });
    expect((await contentOf("cache")).get("newer")).toBe("value");
    await client.create(Restore, {
      metadata: { name: "again", namespace },
      spec: { backup: { name: "second" }, app: { name: "cache" }, overwrite: "cache" },
    });
    const again = await finishedRestore("again");
    expect(again, JSON.stringify(again)).toMatchObject({ phase: "Completed" });
    expect(await contentOf("cache")).toEqual(content);

    // The verification has restored the first backup into a scratch App, and deleted it.
    const verified = await watched(client, Backup, "first", (each) =>
      (each?.status?.conditions ?? []).some(({ type, status }) => type === "Verified" && status !== "Unknown"),
    );
    expect(verified?.status?.conditions?.find(({ type }) => type === "Verified")).toMatchObject({ status: "True" });
    await watched(client, App, "first-verify-scratch", (each) => each === undefined);

    // A damaged file is refused, and the App keeps its data.
    const folder = await backupFolder();
    const file = join(folder, second?.artifact?.path ?? "");
    const bytes = await readFile(file);
    bytes.writeUInt8((bytes[1_000_000] ?? 0) ^ 1, 1_000_000);
    await writeFile(file, bytes);
    const pods = (await redis.pods()).map(({ metadata }) => metadata.uid);
    await client.create(Restore, {
      metadata: { name: "damaged", namespace },
      spec: { backup: { name: "second" }, app: { name: "cache" }, overwrite: "cache" },
    });
    expect(await finishedRestore("damaged")).toMatchObject({ phase: "Failed", message: /damaged/ });
    expect(await contentOf("cache")).toEqual(content);
    expect((await redis.pods()).map(({ metadata }) => metadata.uid)).toEqual(pods);

    // The policy Delete deletes the data, and that of no other Backup.
    await client.delete(Backup, { namespace, name: "first" });
    await watched(client, Backup, "first", (each) => each === undefined);
    const files = await readdir(folder, { recursive: true });
    expect(files.filter((each) => each.endsWith("data")).length).toBe(1);
    expect(redis.errors).toEqual([]);
  });
});
