import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PostgresPods } from "./testing/postgres-pod.ts";

let servers: PostgresPods;
beforeAll(async () => {
  servers = await PostgresPods.install();
});
afterAll(() => servers.uninstall());

/** Metrics of every statement, with one label set. */
const expected = [
  ...["pg_up", "pg_static", "pg_postmaster_start_time_seconds", "pg_replication_is_replica", "pg_replication_lag_seconds"],
  ...["pg_stat_database_xact_commit", "pg_stat_database_active_time_seconds_total", "pg_stat_database_conflicts_confl_lock"],
  ...["pg_stat_bgwriter_checkpoints_timed_total", "pg_stat_archiver_archived_count", "pg_stat_activity_count"],
  ...["pg_locks_count", "pg_wal_segments", "pg_wal_size_bytes", "pg_database_connection_limit", "pg_database_size_bytes"],
  ...["pg_settings_shared_buffers_bytes", "pg_settings_max_connections", "pg_settings_wal_sender_timeout_seconds"],
];

describe("the metrics of PostgreSQL", { timeout: 120_000 }, () => {
  it("do not call functions of users, who would be the superuser in them", async () => {
    const pods = await servers.start(1);
    try {
      const [primary] = pods;
      if (primary === undefined) throw new Error("start: returned no Pod");
      await primary.engine.assign({ role: "primary", primaryHost: primary.host, epoch: 1 });
      // A better match for text than count("any").
      const attack = `CREATE FUNCTION public.count_one(bigint, text) RETURNS bigint LANGUAGE plpgsql AS
        'BEGIN ALTER ROLE mallory SUPERUSER; RETURN 1; END'`;
      const shadow = "CREATE AGGREGATE public.count(text) (SFUNC = public.count_one, STYPE = bigint, INITCOND = 0)";
      expect(await primary.run([["CREATE ROLE mallory"], [attack], [shadow]])).toEqual([]);
      const names = (await primary.engine.metrics()).map(({ name }) => name);
      expect(names).toContain("pg_locks_count");
      const isSuperuser = "SELECT rolsuper::text AS super FROM pg_roles WHERE rolname = 'mallory'";
      expect(await primary.run([[isSuperuser]])).toEqual([{ super: "false" }]);
    } finally {
      await servers.stop(pods);
    }
  });

  it("have the names of postgres_exporter, on a primary and on a replica", async () => {
    const pods = await servers.start(2);
    try {
      const [primary, replica] = pods;
      if (primary === undefined || replica === undefined) throw new Error("start: returned too few Pods");
      await primary.engine.assign({ role: "primary", primaryHost: primary.host, epoch: 1 });
      await replica.engine.assign({ role: "replica", primaryHost: primary.host, epoch: 1 });
      await expect.poll(async () => (await replica.engine.role().catch(() => undefined))?.info["isInSync"]).toBe("true");
      // Until the replica has reported what it has applied, its lag is not known.
      const replayed = [["SELECT replay_lsn::text FROM pg_stat_replication WHERE replay_lsn IS NOT NULL"]] as const;
      await expect.poll(() => primary.run(replayed), { timeout: 60_000 }).toHaveLength(1);
      const own = await primary.engine.metrics();
      const names = own.map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining([...expected, "pg_stat_replication_pg_wal_lsn_diff"]));
      const samplesOf = (metrics: typeof own, name: string) => metrics.find((each) => each.name === name)?.samples;
      expect(samplesOf(own, "pg_replication_is_replica")).toEqual([{ labels: {}, value: 0 }]);
      expect(samplesOf(own, "pg_stat_replication_pg_wal_lsn_diff")).toMatchObject([
        { labels: { application_name: replica.host, state: "streaming" } },
      ]);
      expect(samplesOf(own, "pg_settings_shared_buffers_bytes")).toEqual([{ labels: {}, value: 16 * 1_048_576 }]);
      const other = await replica.engine.metrics();
      expect(other.map(({ name }) => name)).toEqual(expect.arrayContaining(expected));
      expect(samplesOf(other, "pg_replication_is_replica")).toEqual([{ labels: {}, value: 1 }]);
    } finally {
      await servers.stop(pods);
    }
  });
});
