import { describe, expect, it } from "vitest";
import { redisAlerts, redisPanels } from "../../../monitoring/redis-monitoring.ts";
import { parseInfo } from "../resp-client.ts";
import { redisMetricNames, redisMetrics } from "./redis-metrics.ts";

const info = parseInfo(
  [
    "# Server",
    "redis_version:7.0.15",
    "uptime_in_seconds:60",
    "# Clients",
    "connected_clients:3",
    "# Memory",
    "used_memory:1000",
    "used_memory_human:1000B",
    "# Persistence",
    "rdb_last_bgsave_status:ok",
    "aof_last_write_status:err",
    "# Stats",
    "total_commands_processed:7",
    "latest_fork_usec:2500",
    "keyspace_hits:4",
    "# Replication",
    "role:slave",
    "master_host:10.0.0.1",
    "master_port:6379",
    "master_link_status:up",
    "master_last_io_seconds_ago:1",
    "master_sync_in_progress:0",
    "slave_repl_offset:90",
    "slave_read_only:1",
    "connected_slaves:1",
    "slave0:ip=10.0.0.2,port=6379,state=online,offset=80,lag=2",
    "# Commandstats",
    "cmdstat_config|get:calls=2,usec=5000000,usec_per_call=2.00,rejected_calls=1,failed_calls=0",
    ...Array.from({ length: 200 }, (_, index) => `errorstat_E${index}:count=1`),
    "# Keyspace",
    "db1:keys=5,expires=2,avg_ttl=1500",
  ].join("\r\n"),
);

const figures = {
  info,
  config: { databases: "2", maxclients: "10000" },
  slowlogLength: 1,
  lastSlow: { id: 4, microseconds: 20_000 },
};
const metrics = redisMetrics({ ...figures, nowMs: 100_000 });
const found = (name: string) => {
  const family = metrics.find((each) => each.name === `redis_${name}`);
  return family?.samples.map(({ labels, value }) => [...Object.values(labels), value]);
};

describe("the metrics of Redis", () => {
  it("have the names, units and labels of redis_exporter", () => {
    expect(
      Object.fromEntries(
        ["up", "connected_clients", "memory_used_bytes", "rdb_last_bgsave_status", "aof_last_write_status"].map((name) => [
          name,
          found(name)?.[0]?.[0],
        ]),
      ),
    ).toEqual({ up: 1, connected_clients: 3, memory_used_bytes: 1000, rdb_last_bgsave_status: 1, aof_last_write_status: 0 });
    expect(found("commands_processed_total")).toEqual([[7]]);
    expect(found("latest_fork_seconds")).toEqual([[0.0025]]);
    expect(found("start_time_seconds")).toEqual([[40]]);
    expect(found("commands_total")).toEqual([["config|get", 2]]);
    expect(found("commands_duration_seconds_total")).toEqual([["config|get", 5]]);
    expect(found("commands_rejected_calls_total")).toEqual([["config|get", 1]]);
    expect(found("slave_repl_offset")).toEqual([["10.0.0.1", "6379", 90]]);
    expect(found("slave_info")).toEqual([["10.0.0.1", "6379", "1", 1]]);
    expect(found("master_link_up")).toEqual([["10.0.0.1", "6379", 1]]);
    expect(found("connected_slave_lag_seconds")).toEqual([["10.0.0.2", "6379", "online", 2]]);
    expect(found("db_keys")).toEqual([
      ["db1", 5],
      ["db0", 0],
    ]);
    expect(found("db_avg_ttl_seconds")).toEqual([["db1", 1.5]]);
    expect(found("last_slow_execution_duration_seconds")).toEqual([[0.02]]);
    expect(found("config_maxclients")).toEqual([[10_000]]);
    expect(metrics.map(({ name }) => name).filter((name) => !redisMetricNames.includes(name))).toEqual([]);
    expect(metrics.filter(({ help }) => help === "")).toEqual([]);
  });

  it("are bounded where scripts of clients choose a label, and leave out what is not a number", () => {
    expect(found("errors_total")).toHaveLength(128);
    expect(metrics.flatMap(({ samples }) => samples).filter(({ value }) => Number.isNaN(value))).toEqual([]);
  });

  it("include those that the alerts and the dashboard use", () => {
    const expressions = [
      ...redisAlerts.map(({ expr }) => expr),
      ...redisPanels.flatMap(({ queries }) => queries.map(({ expr }) => expr)),
    ];
    const used = expressions.flatMap((expr) => expr.match(/\bredis_\w+/g) ?? []);
    expect(used.length).toBeGreaterThan(20);
    expect(used.filter((name) => !redisMetricNames.includes(name))).toEqual([]);
  });
});
