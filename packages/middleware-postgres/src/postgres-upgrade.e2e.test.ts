import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PostgresApp } from "./testing/postgres-app.ts";

/* Upgrades a real App from PostgreSQL 15 to 18. The programs of version 18 are those of a Python package. */

let app: PostgresApp;
beforeAll(async () => {
  app = await PostgresApp.start({ hasTwoVersions: true });
}, 300_000);
afterAll(() => app?.[Symbol.asyncDispose]());

const versions = async (): Promise<readonly string[]> => {
  const rows = (await app.hosts()).map((host) => app.query(host, "SELECT current_setting('server_version') AS version"));
  return (await Promise.all(rows)).map(([row]) => String(row?.["version"]).split(".")[0] ?? "");
};
const run = async (text: string) => app.query(await app.cluster.primary(), text);

describe("an upgrade to the next major version", { timeout: 600_000 }, () => {
  it("is refused before anything stops if the data or a parameter does not permit it", async () => {
    await app.provision({ max_prepared_transactions: "5", synchronous_standby_names: "ANY 1 (*)" }, 3);
    await app.insert("before");
    const before = (await app.cluster.pods()).map(({ metadata }) => metadata.uid);
    // What no version after 15 has.
    await run("BEGIN; CREATE TABLE public.t (); PREPARE TRANSACTION 'open'");
    const refused = await app.changeVersion("18");
    expect(refused).toMatchObject({
      outcome: "Failed",
      error: expect.stringMatching(/cannot be upgraded to 18: .*prepared transactions/i),
    });
    expect((await app.cluster.pods()).map(({ metadata }) => metadata.uid)).toEqual(before);
    await run("ROLLBACK PREPARED 'open'");
    expect(await app.changeVersion("17")).toMatchObject({ error: expect.stringContaining("17/bin") });
    expect((await app.cluster.pods()).map(({ metadata }) => metadata.uid)).toEqual(before);
  });

  it("returns to the old version, with all data, if it fails", async () => {
    // Passes the check, and fails when the data is copied.
    await app.breakCopy();
    const failed = await app.changeVersion("18");
    expect(failed).toMatchObject({
      outcome: "Failed",
      error: expect.stringContaining("upgrading the data of cache-postgres-nodes-0"),
    });
    await app.repairCopy();
    await expect.poll(versions, { timeout: 120_000 }).toEqual(["15", "15", "15"]);
    await expect.poll(() => app.rows(), { timeout: 60_000 }).toEqual(["before"]);
    await app.insert("after the failure");
  });

  it("upgrades the primary's data and copies it to the replicas", async () => {
    const writer = await app.startWriter();
    expect(await app.changeVersion("18")).toEqual({ outcome: "Succeeded", error: "" });
    const count = writer.count;
    await expect.poll(() => writer.count).toBeGreaterThan(count);
    const { lost } = await app.lostRows(writer);
    expect(lost).toEqual([]);
    expect(await versions()).toEqual(["18", "18", "18"]);
    expect(await app.rows()).toEqual(expect.arrayContaining(["before", "after the failure"]));
    const { status } = await app.cluster.group();
    expect(status).toMatchObject({ currentVersion: expect.stringMatching(/^18\./), operation: { pointOfNoReturn: true } });
    const [plan] = await run("SELECT count(*)::text AS count FROM pg_stats WHERE tablename = 'rows'");
    expect(plan).toBeDefined();
  });

  it("leaves replicas that can take over, and is not reverted", async () => {
    const generation = await app.cluster.changeApp({ runtime: { name: "postgres", version: "15" } });
    const { status } = await app.cluster.untilApp(({ status: each }) => each?.observedGeneration === generation);
    expect(status?.conditions?.find(({ type }) => type === "Accepted")?.message).toContain(
      "does not support the upgrade from 18 to 15",
    );
    const primary = (await app.cluster.group()).status?.primary?.pod;
    process.kill(await app.serverPid(), "SIGKILL");
    await app.cluster.untilGroup(({ status: each }) => each?.primary?.pod !== primary && each?.readyReplicas === 3);
    await app.insert("after the failover");
    expect(await versions()).toEqual(["18", "18", "18"]);
  });
});
