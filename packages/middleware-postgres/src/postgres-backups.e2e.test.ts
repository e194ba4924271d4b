import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import type { DeepReadonly } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { watched } from "@keelson/client/testing";
import { Backup } from "../../../operators/middleware/src/api/backup.ts";
import { BackupSchedule } from "../../../operators/middleware/src/api/backup-schedule.ts";
import { Restore } from "../../../operators/middleware/src/api/restore.ts";
import { describe, expect, it } from "vitest";
import { shareApp } from "./testing/shared-app.ts";

const namespace = "default";
const storage = { volume: { claimName: "backups", size: "1Gi" } };
const app = shareApp();

/** Takes a backup of the App, and returns its status. */
async function backUp(name: string): Promise<DeepReadonly<Backup>["status"]> {
  const { client } = app().cluster;
  await client.create(Backup, { metadata: { name, namespace }, spec: { app: { name: "cache" }, storage } });
  const { status } = (await watched(client, Backup, name, (each) => each?.status?.completedAt !== undefined)) ?? {};
  expect(status, JSON.stringify(status)).toMatchObject({ phase: "Completed" });
  return status;
}

/** Restores a backup over the App unless `spec` says otherwise, and returns the status. */
async function restore(
  name: string,
  backup: string,
  spec: object = { app: { name: "cache" }, overwrite: "cache" },
): Promise<DeepReadonly<Restore>["status"]> {
  const { client } = app().cluster;
  await client.create(Restore, {
    metadata: { name, namespace },
    spec: { backup: { name: backup }, app: { name: "cache" }, ...spec },
  });
  return (await watched(client, Restore, name, (each) => each?.status?.completedAt !== undefined))?.status;
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

describe("backups of a PostgreSQL App", { timeout: 300_000 }, () => {
  it("archives its log over a failover, and is recovered to a time after it", async () => {
    const { client } = app().cluster;
    await app().provision({}, 2);
    await client.create(BackupSchedule, {
      metadata: { name: "nightly", namespace },
      spec: { app: { name: "cache" }, storage, schedule: "0 0 1 1 *", log: true },
    });
    await watched(client, BackupSchedule, "nightly", (each) => each?.status?.log?.folder !== undefined);
    const primary = async (text: string) => (await app().query(await app().cluster.primary(), text))[0];
    await expect.poll(() => primary("SHOW archive_timeout"), { timeout: 60_000 }).toEqual({ archive_timeout: "1min" });
    expect(await backUp("archived")).toMatchObject({ logFolder: expect.any(String) });

    // Rows before and after a failover, and after the target.
    await app().insert("before the failover");
    const old = (await app().cluster.group()).status?.primary?.pod;
    process.kill(await app().serverPid(), "SIGKILL");
    await app().cluster.untilGroup(({ status }) => status?.primary?.pod !== old && status?.readyReplicas === 2);
    await app().insert("after the failover");
    const utc = "clock_timestamp() AT TIME ZONE 'UTC'";
    const { time = "" } = (await primary(`SELECT to_char(${utc}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS time`)) ?? {};
    await app().insert("after the target");
    const end = await primary("SELECT pg_walfile_name(pg_switch_wal()) AS name");
    const archived = await watched(
      client,
      BackupSchedule,
      "nightly",
      (each) => (each?.status?.log?.lastFile ?? "") >= (end?.["name"] ?? ""),
    );
    expect(archived?.status?.conditions?.find(({ type }) => type === "LogArchived")).toMatchObject({ status: "True" });

    const restored = (name: string, target: object) => restore(name, "archived", { overwrite: "cache", maxRetries: 0, target });
    expect(await restored("future", { time: "2100-01-01T00:00:00Z" })).toMatchObject({
      phase: "Failed",
      message: expect.stringMatching(/recovery target/),
    });
    expect(await app().rows()).toEqual(["after the failover", "after the target", "before the failover"]);
    expect(await restored("time", { time })).toMatchObject({ phase: "Completed" });
    expect(await app().rows()).toEqual(["after the failover", "before the failover"]);
    await app().insert("on the new timeline");
    expect(app().cluster.errors).toEqual([]);

    // The deletion ends the archive: the server deletes its log again.
    await client.delete(BackupSchedule, { namespace, name: "nightly" });
    await watched(client, BackupSchedule, "nightly", (each) => each === undefined);
    expect(await primary("SHOW archive_command")).toEqual({ archive_command: "true" });
  });

  it("is backed up from a replica under writes, and restored over itself and into a new App", async () => {
    const { client } = app().cluster;
    await app().provision({}, 2);
    const writer = await app().startWriter();
    expect(await backUp("first")).toMatchObject({
      source: { role: "replica" },
      artifact: { format: "pg_basebackup", unit: "files" },
    });
    const { acknowledged } = await writer.stop();
    await app().insert("later");

    const again = await restore("again", "first");
    expect(again, JSON.stringify(again)).toMatchObject({ phase: "Completed" });
    const found = await app().rows();
    // A prefix of what was written: nothing in between is missing.
    expect(found).not.toContain("later");
    expect(found.length).toBeGreaterThan(100);
    expect(found).toEqual(acknowledged.slice(0, found.length).toSorted());
    await app().insert("newer");
    for (const host of await app().hosts()) await expect.poll(() => app().rows(host), { timeout: 60_000 }).toContain("newer");

    const copy = await restore("copy", "first", { app: { name: "copy" } });
    expect(copy, JSON.stringify(copy)).toMatchObject({ phase: "Completed" });
    const { items } = await client.list(Pod, { namespace, labelSelector: "middleware.io/app=copy,middleware.io/role=primary" });
    expect(await app().rows(items[0]?.status?.podIP ?? "", "copy")).toEqual(found);
    expect(app().cluster.errors).toEqual([]);
  });

  it.each([0, 3])(
    "has all old or all new data if its agent is killed while a Restore with %s retries replaces it",
    async (maxRetries) => {
      await app().provision({}, 1);
      await app().insert("kept");
      await backUp(`kept-${maxRetries}`);
      await app().insert("later");

      const killed = killAgentAtReplacement(await app().serverPid());
      const restoring = restore(`kept-${maxRetries}`, `kept-${maxRetries}`, { overwrite: "cache", maxRetries });
      await killed;
      const status = await restoring;
      expect(status?.phase, JSON.stringify(status)).toBe(maxRetries === 0 ? "Failed" : "Completed");
      await app().cluster.untilGroup(({ status: each }) => each?.readyReplicas === 1);
      await expect.poll(() => app().rows(), { timeout: 60_000 }).toContain("kept");
      const [old, loaded] = [["kept", "later"], ["kept"]];
      expect(maxRetries === 0 ? [old, loaded] : [loaded]).toContainEqual(await app().rows());
      await app().insert("after");
    },
  );
});
