import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Pod, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { watched } from "@keelson/client/testing";
import { Backup } from "../../../operators/middleware/src/api/backup.ts";
import { BackupSchedule } from "../../../operators/middleware/src/api/backup-schedule.ts";
import { Restore } from "../../../operators/middleware/src/api/restore.ts";
// The environment of the operator's own tests: an API server, a kubelet that runs programs, and the controllers.
import { type RedisEnvironment, startRedisEnvironment } from "../../../operators/middleware/src/testing/redis-environment.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PostgresConnection, type Value } from "./server/postgres-client.ts";
import { postgresPlugin } from "./postgres-plugin.ts";
import { FrozenServer } from "./testing/frozen-server.ts";
import { RowWriter } from "./testing/row-writer.ts";

const namespace = "default";
let cluster: RedisEnvironment;
beforeEach(async () => {
  const agentMain = fileURLToPath(new URL("../dist/main.js", import.meta.url));
  cluster = await startRedisEnvironment({ plugins: [postgresPlugin], agentMain, group: "cache-postgres-nodes" });
}, 60_000);
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await cluster[Symbol.asyncDispose]();
}, 60_000);
/** The writer of the current test. */
let running: RowWriter | undefined;

const nodes = (part: object) => ({ components: [{ name: "postgres", groups: [{ name: "nodes", ...part }] }] });

/** Small servers, so that several fit a busy machine. */
const small = { shared_buffers: "16MB", max_connections: "40", wal_keep_size: "64MB" };

async function provision(config: Readonly<Record<string, string>> = {}, replicas = 3): Promise<void> {
  await cluster.createApp({
    plugin: { name: "postgres", version: "1.0.0" },
    runtime: { name: "postgres", version: "15" },
    config: { postgresConfig: { ...small, ...config } },
    ...nodes({ replicas, storage: { size: "256Mi" } }),
  });
  await cluster.settled(1);
  await query(await cluster.primary(), "CREATE TABLE rows (id text PRIMARY KEY)");
}

async function password(): Promise<string> {
  const secret = await cluster.client.get(Secret, { namespace: "default", name: "cache-access" });
  return Buffer.from(secret.data?.["password"] ?? "", "base64").toString();
}

async function query(
  host: string,
  text: string,
  values: readonly Value[] = [],
): Promise<readonly Readonly<Record<string, Value>>[]> {
  await using connection = await PostgresConnection.open({ host, port: 5_432, password: await password(), timeoutMs: 20_000 });
  return await connection.run(text, values);
}

const hosts = async (): Promise<readonly string[]> => (await cluster.pods()).flatMap((pod) => pod.status?.podIP ?? []);

/** Starts a writer, and waits until it writes. */
async function startWriter(): Promise<RowWriter> {
  const writer = new RowWriter(hosts, await password(), systemClock);
  running = writer;
  await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(100);
  return writer;
}

/** Stops the writer, and returns the acknowledged rows that the primary does not have. */
async function lostRows(writer: RowWriter): Promise<{ readonly lost: readonly string[]; readonly written: number }> {
  const { acknowledged } = await writer.stop();
  const stored = new Set((await query(await cluster.primary(), "SELECT id FROM rows")).map(({ id }) => id));
  return { lost: acknowledged.filter((row) => !stored.has(row)), written: acknowledged.length };
}

/** Waits until another Pod is the primary and all three are in sync. */
async function recovered(old: string | undefined): Promise<void> {
  await cluster.untilGroup(
    ({ status }) => status?.primary?.pod !== old && status?.readyReplicas === 3 && status.failover === undefined,
  );
}

/** Waits until the plan of a generation has ended, and succeeded. */
async function succeeded(generation: number): Promise<void> {
  const { status } = await cluster.untilApp(
    ({ status: each }) => each?.plan?.generation === generation && each.plan.outcome !== undefined,
  );
  expect(status?.plan?.outcome, JSON.stringify(status?.plan)).toBe("Succeeded");
}

/** Process id of the primary's server. */
async function serverPid(): Promise<number> {
  const [row] = await query(await cluster.primary(), "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1) AS pid");
  return Number(row?.["pid"]);
}

/** Kills the agent of a server when the data of the server is moved away for its replacement. */
async function killAgentAtReplacement(server: number): Promise<void> {
  const stat = await readFile(`/proc/${server}/stat`, "utf8");
  const agent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  await new Promise<void>((resolve) => {
    const home = watch(`/proc/${server}/cwd/..`, (_, name) => {
      if (name !== "old") return;
      process.kill(agent, "SIGKILL");
      home.close();
      resolve();
    });
  });
}

describe("a PostgreSQL App", { timeout: 300_000 }, () => {
  it("is provisioned, applies hot, cold and invalid parameters under a live writer, and scales out", async () => {
    await provision();
    const pods = await cluster.pods();
    expect(pods.map((pod) => pod.metadata.labels?.["middleware.io/role"])).toEqual(["primary", "replica", "replica"]);
    expect((await cluster.group()).status?.currentVersion).toMatch(/^15\./);
    const writer = await startWriter();

    await succeeded(await cluster.changeApp({ config: { postgresConfig: { work_mem: "8MB" } } }));
    expect((await cluster.pods()).map((pod) => pod.metadata.uid)).toEqual(pods.map((pod) => pod.metadata.uid));
    for (const host of await hosts()) expect(await query(host, "SHOW work_mem")).toEqual([{ work_mem: "8MB" }]);

    await cluster.changeApp({ config: { postgresConfig: { work_mem: "plenty" } } });
    const failed = await cluster.untilApp(({ status }) => status?.plan?.generation === 3 && status.plan.outcome !== undefined);
    expect(failed.status?.plan?.tasks[0]).toMatchObject({ status: "failed", errorClass: "Config" });
    expect(failed.status?.plan?.tasks[0]?.error).toMatch(/invalid value for parameter "work_mem": "plenty"/);

    const wasPrimary = (await cluster.group()).status?.primary?.pod;
    await succeeded(await cluster.changeApp({ config: { postgresConfig: { work_mem: "8MB", max_connections: "50" } } }));
    expect((await cluster.group()).status?.primary?.pod).not.toBe(wasPrimary);
    expect(await query(await cluster.primary(), "SHOW max_connections")).toEqual([{ max_connections: "50" }]);
    const before = writer.count;
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 20);
    expect((await lostRows(writer)).lost).toEqual([]);

    await succeeded(await cluster.changeApp(nodes({ replicas: 4, storage: { size: "256Mi" } })));
    expect(await query(await cluster.primary(), "SELECT count(*)::text FROM pg_stat_replication")).toEqual([{ count: "3" }]);
    expect(cluster.errors).toEqual([]);
  });

  it.each<[string, (pid: number) => Promise<FrozenServer | undefined>]>([
    [
      "killed",
      (pid) => {
        process.kill(pid, "SIGKILL");
        return Promise.resolve(undefined);
      },
    ],
    ["frozen", (pid) => FrozenServer.freeze(pid)],
  ])(
    "loses no acknowledged row when its primary is %s, with synchronous replicas, and the former primary follows",
    async (_, fail) => {
      await provision({ synchronous_standby_names: "ANY 1 (*)" });
      const old = (await cluster.group()).status?.primary?.pod;
      const writer = await startWriter();
      const frozen = await fail(await serverPid());
      await recovered(old);
      // A process that continued could acknowledge a commit that its successor does not have.
      expect((await frozen?.continue()) ?? []).toEqual([]);
      const before = writer.count;
      await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 20);
      const { lost, written } = await lostRows(writer);
      expect(lost).toEqual([]);
      const [last] = await query(await cluster.primary(), "SELECT count(*)::text AS rows FROM rows");
      expect(Number(last?.["rows"])).toBeGreaterThanOrEqual(written);
      for (const host of await hosts())
        await expect.poll(() => query(host, "SELECT count(*)::text AS rows FROM rows"), { timeout: 60_000 }).toEqual([last]);
    },
  );

  it("is backed up from a replica under writes, restored over itself and into a new App, and not by damaged data", async () => {
    const { client } = cluster;
    await provision({}, 2);
    const writer = await startWriter();
    const storage = { volume: { claimName: "backups", size: "512Mi" } };
    await client.create(Backup, { metadata: { name: "first", namespace }, spec: { app: { name: "cache" }, storage } });
    const backup = await watched(client, Backup, "first", (each) => each?.status?.completedAt !== undefined);
    expect(backup?.status, JSON.stringify(backup?.status)).toMatchObject({
      phase: "Completed",
      source: { role: "replica" },
      artifact: { format: "pg_basebackup", unit: "files" },
    });
    const { acknowledged } = await writer.stop();
    await query(await cluster.primary(), "INSERT INTO rows VALUES ('later')");

    const restored = async (name: string, spec: object) => {
      await client.create(Restore, { metadata: { name, namespace }, spec: { backup: { name: "first" }, ...spec } });
      return (await watched(client, Restore, name, (each) => each?.status?.completedAt !== undefined))?.status;
    };
    const rows = async (host: string) => (await query(host, "SELECT id FROM rows ORDER BY id")).map(({ id }) => id);
    const again = await restored("again", { app: { name: "cache" }, overwrite: "cache" });
    expect(again, JSON.stringify(again)).toMatchObject({ phase: "Completed" });
    const found = await rows(await cluster.primary());
    // A prefix of what was written: nothing in between is missing.
    expect(found).not.toContain("later");
    expect(found.length).toBeGreaterThan(100);
    expect(found).toEqual(acknowledged.slice(0, found.length).toSorted());
    await query(await cluster.primary(), "INSERT INTO rows VALUES ('newer')");
    for (const host of await hosts()) await expect.poll(() => rows(host), { timeout: 60_000 }).toContain("newer");

    const copy = await restored("copy", { app: { name: "copy" } });
    expect(copy, JSON.stringify(copy)).toMatchObject({ phase: "Completed" });
    const { items } = await client.list(Pod, { namespace, labelSelector: "middleware.io/app=copy,middleware.io/role=primary" });
    const access = await client.get(Secret, { namespace, name: "copy-access" });
    await using connection = await PostgresConnection.open({
      ...{ host: items[0]?.status?.podIP ?? "", port: 5_432, timeoutMs: 20_000 },
      password: Buffer.from(access.data?.["password"] ?? "", "base64").toString(),
    });
    expect((await connection.run("SELECT id FROM rows ORDER BY id")).map(({ id }) => id)).toEqual(found);
    expect(cluster.errors).toEqual([]);
  });

  it.each([0, 3])(
    "has all old or all new data if its agent is killed while a Restore with %s retries replaces it",
    async (maxRetries) => {
      const { client } = cluster;
      await provision({}, 1);
      const storage = { volume: { claimName: "backups", size: "512Mi" } };
      await query(await cluster.primary(), "INSERT INTO rows VALUES ('kept')");
      await client.create(Backup, { metadata: { name: "first", namespace }, spec: { app: { name: "cache" }, storage } });
      const backup = await watched(client, Backup, "first", (each) => each?.status?.completedAt !== undefined);
      expect(backup?.status, JSON.stringify(backup?.status)).toMatchObject({ phase: "Completed" });
      await query(await cluster.primary(), "INSERT INTO rows VALUES ('later')");

      const killed = killAgentAtReplacement(await serverPid());
      await client.create(Restore, {
        metadata: { name: "again", namespace },
        spec: { backup: { name: "first" }, app: { name: "cache" }, overwrite: "cache", maxRetries },
      });
      await killed;
      const restore = await watched(client, Restore, "again", (each) => each?.status?.completedAt !== undefined);
      const status = JSON.stringify(restore?.status);
      expect(restore?.status?.phase, status).toBe(maxRetries === 0 ? "Failed" : "Completed");
      await cluster.untilGroup(({ status: each }) => each?.readyReplicas === 1);
      const rows = async () => (await query(await cluster.primary(), "SELECT id FROM rows ORDER BY id")).map(({ id }) => id);
      await expect.poll(rows, { timeout: 60_000 }).toContain("kept");
      const [old, loaded] = [["kept", "later"], ["kept"]];
      expect(maxRetries === 0 ? [old, loaded] : [loaded]).toContainEqual(await rows());
      await query(await cluster.primary(), "INSERT INTO rows VALUES ('after')");
    },
  );

  it("archives its log over a failover, and is recovered to a time after it", async () => {
    const { client } = cluster;
    await provision({}, 2);
    const settings = { app: { name: "cache" }, storage: { volume: { claimName: "backups", size: "1Gi" } } };
    await client.create(BackupSchedule, {
      metadata: { name: "nightly", namespace },
      spec: { ...settings, schedule: "0 0 1 1 *", log: true },
    });
    await watched(client, BackupSchedule, "nightly", (each) => each?.status?.log?.folder !== undefined);
    await expect
      .poll(async () => (await query(await cluster.primary(), "SHOW archive_timeout"))[0], { timeout: 60_000 })
      .toEqual({ archive_timeout: "1min" });
    await client.create(Backup, { metadata: { name: "first", namespace }, spec: settings });
    const backup = await watched(client, Backup, "first", (each) => each?.status?.completedAt !== undefined);
    expect(backup?.status, JSON.stringify(backup?.status)).toMatchObject({ phase: "Completed", logFolder: expect.any(String) });

    // Rows before and after a failover, and after the target.
    const insert = async (id: string) => query(await cluster.primary(), "INSERT INTO rows VALUES ($1)", [id]);
    await insert("before the failover");
    const old = (await cluster.group()).status?.primary?.pod;
    process.kill(await serverPid(), "SIGKILL");
    await cluster.untilGroup(({ status }) => status?.primary?.pod !== old && status?.readyReplicas === 2);
    await insert("after the failover");
    const [row] = await query(
      await cluster.primary(),
      "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS time",
    );
    await insert("after the target");
    const [end] = await query(await cluster.primary(), "SELECT pg_walfile_name(pg_switch_wal()) AS name");
    const archived = await watched(
      client,
      BackupSchedule,
      "nightly",
      (each) => (each?.status?.log?.lastFile ?? "") >= (end?.["name"] ?? ""),
    );
    expect(archived?.status?.conditions?.find(({ type }) => type === "LogArchived")).toMatchObject({ status: "True" });

    const restored = async (name: string, target: object) => {
      await client.create(Restore, {
        metadata: { name, namespace },
        spec: { backup: { name: "first" }, app: { name: "cache" }, overwrite: "cache", maxRetries: 0, target },
      });
      const { status } = (await watched(client, Restore, name, (each) => each?.status?.completedAt !== undefined)) ?? {};
      return [status?.phase, status?.message] as const;
    };
    const rows = async () => (await query(await cluster.primary(), "SELECT id FROM rows ORDER BY id")).map(({ id }) => id);
    const all = ["after the failover", "after the target", "before the failover"];
    expect(await restored("future", { time: "2100-01-01T00:00:00Z" })).toEqual([
      "Failed",
      expect.stringMatching(/recovery target/),
    ]);
    expect(await rows()).toEqual(all);
    const time = row?.["time"] ?? "";
    expect(await restored("time", { time })).toEqual(["Completed", expect.any(String)]);
    expect(await rows()).toEqual(["after the failover", "before the failover"]);
    await insert("on the new timeline");
    expect(cluster.errors).toEqual([]);

    // The deletion ends the archive: the server deletes its log again.
    await client.delete(BackupSchedule, { namespace, name: "nightly" });
    await watched(client, BackupSchedule, "nightly", (each) => each === undefined);
    expect(await query(await cluster.primary(), "SHOW archive_command")).toEqual([{ archive_command: "true" }]);
  });
});
