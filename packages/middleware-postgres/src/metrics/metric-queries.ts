/** A statement whose columns are metrics, under the names of postgres_exporter. */
export interface MetricQuery {
  /** Prefix of the names, such as `pg_stat_database`. */
  readonly prefix: string;
  /** Columns that are labels. */
  readonly labels: readonly string[];
  /** Columns that are counters. All others are gauges. */
  readonly counters: readonly string[];
  readonly text: string;
}

/** A time or an interval in seconds. */
const seconds = (column: string): string => `extract(epoch FROM ${column})`;

const received = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END";

const databaseCounters = [
  ...["xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched", "tup_inserted", "tup_updated"],
  ...["tup_deleted", "conflicts", "temp_files", "temp_bytes", "deadlocks", "blk_read_time", "blk_write_time"],
];

const conflictCounters = ["confl_tablespace", "confl_lock", "confl_snapshot", "confl_bufferpin", "confl_deadlock"];

const writerCounters = [
  ...["checkpoints_timed", "checkpoints_req", "checkpoint_write_time", "checkpoint_sync_time", "buffers_checkpoint"],
  ...["buffers_clean", "maxwritten_clean", "buffers_backend", "buffers_backend_fsync", "buffers_alloc"],
];

const lockModes = [
  ...["accesssharelock", "rowsharelock", "rowexclusivelock", "shareupdateexclusivelock", "sharelock"],
  ...["sharerowexclusivelock", "exclusivelock", "accessexclusivelock", "sireadlock"],
];

/** The metrics of PostgreSQL 15. The last one reads the sizes of all files. */
export const metricQueries: readonly MetricQuery[] = [
  {
    prefix: "pg",
    labels: ["version", "short_version"],
    counters: [],
    text: "SELECT version() AS version, current_setting('server_version') AS short_version, 1 AS static",
  },
  {
    prefix: "pg",
    labels: [],
    counters: [],
    text: `SELECT ${seconds("pg_postmaster_start_time()")} AS postmaster_start_time_seconds`,
  },
  {
    prefix: "pg_replication",
    labels: [],
    counters: [],
    text: `SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
        ELSE greatest(0, ${seconds("now() - pg_last_xact_replay_timestamp()")}) END AS lag_seconds,
      pg_is_in_recovery()::int AS is_replica,
      greatest(0, ${seconds("now() - pg_last_xact_replay_timestamp()")}) AS last_replay_seconds`,
  },
  {
    prefix: "pg_stat_replication",
    labels: ["application_name", "client_addr", "state", "slot_name"],
    counters: [],
    text: `SELECT application_name, client_addr::text AS client_addr, state, coalesce(slot_name, '') AS slot_name,
      min((${received}) - '0/0') AS pg_current_wal_lsn_bytes, max((${received}) - replay_lsn) AS pg_wal_lsn_diff
      FROM pg_stat_replication LEFT JOIN pg_replication_slots ON active_pid = pid GROUP BY 1, 2, 3, 4`,
  },
  {
    prefix: "pg_stat_database",
    labels: ["datid", "datname"],
    counters: databaseCounters,
    text: `SELECT datid::text AS datid, coalesce(datname, '') AS datname, numbackends, ${databaseCounters.join(", ")},
      ${seconds("stats_reset")} AS stats_reset FROM pg_stat_database`,
  },
  {
    prefix: "pg_stat_database",
    labels: ["datid", "datname"],
    counters: ["active_time_seconds_total"],
    text: `SELECT datid::text AS datid, coalesce(datname, '') AS datname, active_time / 1000 AS active_time_seconds_total
      FROM pg_stat_database`,
  },
  {
    prefix: "pg_stat_database_conflicts",
    labels: ["datid", "datname"],
    counters: conflictCounters,
    text: `SELECT datid::text AS datid, datname, ${conflictCounters.join(", ")} FROM pg_stat_database_conflicts`,
  },
  {
    prefix: "pg_stat_bgwriter",
    labels: [],
    counters: [...writerCounters, "stats_reset"].map((name) => `${name}_total`),
    text: `SELECT ${writerCounters.map((name) => `${name} AS ${name}_total`).join(", ")},
      ${seconds("stats_reset")} AS stats_reset_total FROM pg_stat_bgwriter`,
  },
  {
    prefix: "pg_stat_archiver",
    labels: [],
    counters: ["archived_count", "failed_count"],
    text: `SELECT archived_count, failed_count, coalesce(${seconds("now() - last_archived_time")}, 0) AS last_archive_age
      FROM pg_stat_archiver`,
  },
  {
    prefix: "pg_stat_activity",
    labels: ["datname", "state", "usename", "application_name", "backend_type"],
    counters: [],
    text: `SELECT coalesce(datname, '') AS datname, coalesce(state, '') AS state, coalesce(usename, '') AS usename,
      application_name, backend_type, count(*) AS count, coalesce(max(${seconds("now() - xact_start")}), 0) AS max_tx_duration
      FROM pg_stat_activity WHERE pid <> pg_backend_pid() GROUP BY 1, 2, 3, 4, 5 ORDER BY count DESC LIMIT 500`,
  },
  {
    prefix: "pg_locks",
    labels: ["datname", "mode"],
    counters: [],
    text: `SELECT datname, modes.mode, count(pg_locks.mode) AS count
      FROM pg_database CROSS JOIN unnest('{${lockModes.join(",")}}'::text[]) AS modes(mode)
      LEFT JOIN pg_locks ON database = pg_database.oid AND lower(pg_locks.mode) = modes.mode GROUP BY 1, 2`,
  },
  {
    prefix: "pg_wal",
    labels: [],
    counters: [],
    text: "SELECT count(*) AS segments, coalesce(sum(size), 0) AS size_bytes FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'",
  },
  {
    prefix: "pg_replication_slot",
    labels: ["slot_name", "slot_type"],
    counters: [],
    text: "SELECT slot_name, slot_type, active::int AS slot_is_active, safe_wal_size AS safe_wal_size_bytes FROM pg_replication_slots",
  },
  {
    prefix: "pg_database",
    labels: ["datname"],
    counters: [],
    text: "SELECT datname, datconnlimit AS connection_limit FROM pg_database",
  },
  {
    prefix: "pg_database",
    labels: ["datname"],
    counters: [],
    text: "SELECT datname, pg_database_size(oid) AS size_bytes FROM pg_database WHERE datallowconn",
  },
];
