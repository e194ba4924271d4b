import type { AlertRule, DashboardPanel } from "@keelson/operator/monitoring";

/** Selects the Apps that the dashboard shows. */
const apps = 'namespace=~"$namespace",app=~"$app"';
const rate = (name: string): string => `rate(${name}{${apps}}[$__rate_interval])`;

/** Panels for the programs of Apps with Redis or Valkey. */
export const redisPanels: readonly DashboardPanel[] = [
  { title: "Redis: servers that answer", queries: [{ expr: `redis_up{${apps}}`, legend: "{{pod}}" }] },
  {
    title: "Redis: clients",
    queries: [
      { expr: `redis_connected_clients{${apps}}`, legend: "{{pod}}" },
      { expr: `redis_blocked_clients{${apps}}`, legend: "{{pod}} blocked" },
    ],
  },
  {
    title: "Redis: memory",
    unit: "bytes",
    queries: [
      { expr: `redis_memory_used_bytes{${apps}}`, legend: "{{pod}}" },
      { expr: `redis_memory_max_bytes{${apps}} > 0`, legend: "{{pod}} maxmemory" },
    ],
  },
  {
    title: "Redis: commands per second",
    unit: "ops",
    queries: [{ expr: rate("redis_commands_processed_total"), legend: "{{pod}}" }],
  },
  {
    title: "Redis: most frequent commands",
    unit: "ops",
    queries: [{ expr: `topk(10, sum by (cmd) (${rate("redis_commands_total")}))`, legend: "{{cmd}}" }],
  },
  {
    title: "Redis: mean duration of commands",
    unit: "s",
    queries: [
      {
        expr: `sum by (cmd) (${rate("redis_commands_duration_seconds_total")}) / (sum by (cmd) (${rate("redis_commands_total")}) > 0)`,
        legend: "{{cmd}}",
      },
    ],
  },
  {
    title: "Redis: hit ratio",
    unit: "percentunit",
    queries: [
      {
        expr: `${rate("redis_keyspace_hits_total")} / (${rate("redis_keyspace_hits_total")} + ${rate("redis_keyspace_misses_total")} > 0)`,
        legend: "{{pod}}",
      },
    ],
  },
  {
    title: "Redis: keys",
    queries: [
      { expr: `sum by (pod) (redis_db_keys{${apps}})`, legend: "{{pod}}" },
      { expr: `sum by (pod) (redis_db_keys_expiring{${apps}})`, legend: "{{pod}} with a time to live" },
    ],
  },
  {
    title: "Redis: evicted and expired keys per second",
    unit: "ops",
    queries: [
      { expr: rate("redis_evicted_keys_total"), legend: "{{pod}} evicted" },
      { expr: rate("redis_expired_keys_total"), legend: "{{pod}} expired" },
    ],
  },
  {
    title: "Redis: network per second",
    unit: "bytes",
    queries: [
      { expr: rate("redis_net_input_bytes_total"), legend: "{{pod}} in" },
      { expr: rate("redis_net_output_bytes_total"), legend: "{{pod}} out" },
    ],
  },
  { title: "Redis: connected replicas", queries: [{ expr: `redis_connected_slaves{${apps}}`, legend: "{{pod}}" }] },
  { title: "Redis: unsaved changes", queries: [{ expr: `redis_rdb_changes_since_last_save{${apps}}`, legend: "{{pod}}" }] },
  {
    title: "Redis: errors per second",
    unit: "ops",
    queries: [{ expr: `sum by (err) (${rate("redis_errors_total")})`, legend: "{{err}}" }],
  },
];

const unlessStopped = 'unless on (namespace, app) keelson_middleware_app_info{phase=~"Stopped|Deleting"}';
const pod = "{{ $labels.namespace }}/{{ $labels.pod }}";

/** Alert rules for the programs of Apps with Redis or Valkey. */
export const redisAlerts: readonly AlertRule[] = [
  {
    alert: "RedisDown",
    expr: `redis_up == 0 ${unlessStopped}`,
    for: "2m",
    severity: "critical",
    summary: `The server of Pod ${pod} does not respond`,
  },
  {
    alert: "RedisMemoryNearlyFull",
    expr: "redis_memory_used_bytes > 0.9 * redis_memory_max_bytes and redis_memory_max_bytes > 0",
    for: "5m",
    severity: "warning",
    summary: `Pod ${pod} uses more than 90% of maxmemory`,
    description: "Keys are evicted or writes are rejected, as maxmemory-policy says",
  },
  {
    alert: "RedisPersistenceFailed",
    expr: "redis_rdb_last_bgsave_status == 0 or redis_aof_last_write_status == 0 or redis_aof_last_bgrewrite_status == 0",
    for: "1m",
    severity: "critical",
    summary: `Pod ${pod} could not write to its volume`,
  },
  {
    alert: "RedisReplicaDisconnected",
    expr: `redis_master_link_up == 0 ${unlessStopped}`,
    for: "2m",
    severity: "warning",
    summary: `Replica ${pod} is not connected to {{ $labels.master_host }}`,
  },
  {
    alert: "RedisConnectionsRejected",
    expr: "increase(redis_rejected_connections_total[5m]) > 0",
    severity: "warning",
    summary: `Pod ${pod} rejects clients because of maxclients`,
  },
];
