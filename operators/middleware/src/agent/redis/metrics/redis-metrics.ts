import type { ProgramMetric } from "@keelson/middleware-agent";
import type { RedisInfo } from "../redis-connection.ts";
import { FamilyBuilder } from "./family-builder.ts";
import { counterFields, gaugeFields } from "./info-fields.ts";

/** What a server reports about itself for one scrape. */
export interface RedisFigures {
  /** All sections of INFO. */
  readonly info: RedisInfo;
  /** Values of CONFIG GET by name. */
  readonly config: Readonly<Record<string, string>>;
  readonly slowlogLength: number;
  /** The newest entry of the slow log. Zeros if it is empty. */
  readonly lastSlow: { readonly id: number; readonly microseconds: number };
  /** Wall clock. */
  readonly nowMs: number;
}

/** Bounds of labels whose number a client or a user decides. */
const maxErrors = 128;
const maxEmptyDatabases = 64;

/** Parameters that are exported as `redis_config_*`. */
export const configParameters = ["io-threads", "maxclients", "maxmemory", "repl-backlog-size", "databases"] as const;

/** Other metrics than fields of INFO, with their descriptions. Names, types and units are those of redis_exporter. */
const described: Readonly<Record<string, string>> = {
  up: "Whether the server responds",
  start_time_seconds: "When the server started, since the epoch",
  latest_fork_seconds: "Duration of the last fork",
  instance_info: "Role, version and identity of the server; the value is 1",
  commands_total: "Calls by command",
  commands_duration_seconds_total: "Time spent by command",
  commands_rejected_calls_total: "Calls that were rejected before execution, by command",
  commands_failed_calls_total: "Calls that failed during execution, by command",
  errors_total: "Error replies by prefix",
  db_keys: "Keys by database",
  db_keys_expiring: "Keys with a time to live, by database",
  db_keys_cached: "Cached keys by database",
  db_avg_ttl_seconds: "Average time to live by database",
  master_link_up: "Whether the replica is connected to its primary",
  master_last_io_seconds_ago: "Seconds since the last message of the primary",
  master_sync_in_progress: "Whether the replica copies the data of its primary",
  slave_repl_offset: "Replication offset of the replica",
  slave_info: "The primary of the replica; the value is 1",
  connected_slave_offset_bytes: "Offset that a replica has acknowledged",
  connected_slave_lag_seconds: "Seconds since a replica acknowledged its offset",
  slowlog_length: "Entries of the slow log",
  slowlog_last_id: "Id of the newest entry of the slow log",
  last_slow_execution_duration_seconds: "Duration of the newest entry of the slow log",
  config_io_threads: "Configured io-threads",
  config_maxclients: "Configured maxclients",
  config_maxmemory: "Configured maxmemory in bytes",
  config_repl_backlog_size: "Configured repl-backlog-size in bytes",
};

const fieldNames = { ...gaugeFields, ...counterFields };
const helpByName: ReadonlyMap<string, string> = new Map([
  ...Object.entries(fieldNames).map(([field, name]) => [`redis_${name}`, `Field ${field} of INFO`] as const),
  ...Object.entries(described).map(([name, help]) => [`redis_${name}`, help] as const),
]);

/** Names of all metrics. */
export const redisMetricNames: readonly string[] = [...helpByName.keys()];

/** The metrics of a server that does not respond. */
export const downMetrics: readonly ProgramMetric[] = [
  { name: "redis_up", help: described["up"] ?? "", type: "gauge", samples: [{ labels: {}, value: 0 }] },
];

/** The metrics of a server. Pure. */
export function redisMetrics(figures: RedisFigures): readonly ProgramMetric[] {
  const builder = new FamilyBuilder((name) => helpByName.get(name) ?? "");
  builder.gauge("redis_up", 1);
  addFields(builder, figures);
  addCommands(builder, figures.info);
  addErrors(builder, figures.info);
  addDatabases(builder, figures);
  addReplication(builder, figures.info);
  addIdentity(builder, figures.info);
  addSlowLog(builder, figures);
  return builder.build();
}

function addFields(builder: FamilyBuilder, { info, config, nowMs }: RedisFigures): void {
  for (const [field, name] of Object.entries(gaugeFields)) builder.gauge(`redis_${name}`, numberOf(info[field]));
  for (const [field, name] of Object.entries(counterFields)) builder.counter(`redis_${name}`, numberOf(info[field]));
  builder.gauge("redis_latest_fork_seconds", numberOf(info["latest_fork_usec"]) / 1e6);
  builder.gauge("redis_start_time_seconds", Math.floor(nowMs / 1000) - numberOf(info["uptime_in_seconds"]));
  for (const name of configParameters)
    if (name !== "databases") builder.gauge(`redis_config_${name.replaceAll("-", "_")}`, numberOf(config[name]));
}

/** `cmdstat_get:calls=1,usec=2,usec_per_call=2.00,rejected_calls=0,failed_calls=0`; the last two since 6.2. */
function addCommands(builder: FamilyBuilder, info: RedisInfo): void {
  for (const [cmd, stats] of withPrefix(info, "cmdstat_")) {
    builder.counter("redis_commands_total", numberOf(stats["calls"]), { cmd });
    builder.counter("redis_commands_duration_seconds_total", numberOf(stats["usec"]) / 1e6, { cmd });
    builder.counter("redis_commands_rejected_calls_total", numberOf(stats["rejected_calls"]), { cmd });
    builder.counter("redis_commands_failed_calls_total", numberOf(stats["failed_calls"]), { cmd });
  }
}

/** `errorstat_ERR:count=4`. Scripts choose these names, so that their number is limited. */
function addErrors(builder: FamilyBuilder, info: RedisInfo): void {
  for (const [err, stats] of withPrefix(info, "errorstat_").slice(0, maxErrors))
    builder.counter("redis_errors_total", numberOf(stats["count"]), { err });
}

/** `db0:keys=1,expires=0,avg_ttl=0`. Databases without keys are not in INFO. */
function addDatabases(builder: FamilyBuilder, { info, config }: RedisFigures): void {
  const empty = Math.min(Number(config["databases"] ?? 0), maxEmptyDatabases);
  const used = Object.keys(info).filter((field) => /^db\d+$/.test(field));
  for (const db of new Set([...used, ...Array.from({ length: empty }, (_, index) => `db${index}`)])) {
    const { keys = "0", expires = "0", avg_ttl: ttl, cached_keys: cached } = pairsOf(info[db] ?? "");
    builder.gauge("redis_db_keys", numberOf(keys), { db });
    builder.gauge("redis_db_keys_expiring", numberOf(expires), { db });
    builder.gauge("redis_db_keys_cached", numberOf(cached), { db });
    builder.gauge("redis_db_avg_ttl_seconds", numberOf(ttl) / 1000, { db });
  }
}

function addReplication(builder: FamilyBuilder, info: RedisInfo): void {
  const primary = { master_host: info["master_host"] ?? "", master_port: info["master_port"] ?? "" };
  if (info["role"] === "slave") {
    builder.gauge("redis_master_link_up", Number(info["master_link_status"] === "up"), primary);
    for (const name of ["master_last_io_seconds_ago", "master_sync_in_progress", "slave_repl_offset"])
      builder.gauge(`redis_${name}`, numberOf(info[name]), primary);
    builder.gauge("redis_slave_info", 1, { ...primary, read_only: info["slave_read_only"] ?? "" });
  }
  for (const [field, value] of Object.entries(info)) {
    if (!/^slave\d+$/.test(field)) continue;
    const { ip = "", port = "", state = "", offset, lag } = pairsOf(value);
    const replica = { slave_ip: ip, slave_port: port, slave_state: state };
    builder.gauge("redis_connected_slave_offset_bytes", numberOf(offset), replica);
    builder.gauge("redis_connected_slave_lag_seconds", numberOf(lag), replica);
  }
}

const identity = [
  ...["role", "redis_version", "redis_build_id", "redis_mode", "os", "maxmemory_policy", "tcp_port", "run_id", "process_id"],
  "master_replid",
];

function addIdentity(builder: FamilyBuilder, info: RedisInfo): void {
  const valkey = ["valkey_version", "valkey_release_stage"].filter((field) => info[field] !== undefined);
  const labels = Object.fromEntries([...identity, ...valkey].map((field) => [field, info[field] ?? ""]));
  builder.gauge("redis_instance_info", 1, labels);
}

function addSlowLog(builder: FamilyBuilder, { slowlogLength, lastSlow }: RedisFigures): void {
  builder.gauge("redis_slowlog_length", slowlogLength);
  builder.gauge("redis_slowlog_last_id", lastSlow.id);
  builder.gauge("redis_last_slow_execution_duration_seconds", lastSlow.microseconds / 1e6);
}

/** Fields with a prefix: the rest of their name, and their `key=value` pairs. */
function withPrefix(info: RedisInfo, prefix: string): readonly (readonly [string, Readonly<Record<string, string>>])[] {
  return Object.entries(info).flatMap(([field, value]) =>
    field.startsWith(prefix) ? [[field.slice(prefix.length), pairsOf(value)] as const] : [],
  );
}

function pairsOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split(",").map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
}

/** A field as a number: `ok` is 1, `err` is 0. NaN if it is missing or is something else. */
function numberOf(value: string | undefined): number {
  if (value === "ok") return 1;
  if (value === "err" || value === "fail") return 0;
  return value === undefined || value.trim() === "" ? Number.NaN : Number(value);
}
