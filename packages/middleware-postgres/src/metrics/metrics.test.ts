import { describe, expect, it } from "vitest";
import { rowMetrics } from "./row-metrics.ts";
import { settingMetrics } from "./setting-metrics.ts";

const setting = (name: string, value: string, unit: string | null, vartype = "integer") => ({
  ...{ name, setting: value, unit, vartype },
  short_desc: "Sets it.",
});
const valueOf = (...args: Parameters<typeof setting>) =>
  settingMetrics([setting(...args)]).map(({ name, samples }) => [name, samples[0]?.value]);

describe("settings as metrics", () => {
  it.each([
    [valueOf("shared_buffers", "2048", "8kB"), "pg_settings_shared_buffers_bytes", 16_777_216],
    [valueOf("wal_sender_timeout", "10000", "ms"), "pg_settings_wal_sender_timeout_seconds", 10],
    [valueOf("checkpoint_timeout", "5", "s"), "pg_settings_checkpoint_timeout_seconds", 5],
    [valueOf("log_rotation_age", "1440", "min"), "pg_settings_log_rotation_age_seconds", 86_400],
    [valueOf("max_slot_wal_keep_size", "-1", "MB"), "pg_settings_max_slot_wal_keep_size_bytes", -1],
    [valueOf("max_connections", "40", null), "pg_settings_max_connections", 40],
    [valueOf("fsync", "off", null, "bool"), "pg_settings_fsync", 0],
    [valueOf("pg.custom", "1", null), "pg_settings_pg_custom", 1],
  ])("%j is %s %s", (found, name, value) => {
    expect(found).toEqual([[name, value]]);
  });

  it("leave out what is not a number", () => {
    expect(valueOf("odd", "maybe", null)).toEqual([]);
  });
});

describe("rows as metrics", () => {
  const query = { prefix: "pg_stat_x", labels: ["datname"], counters: ["hits"], text: "" };

  it("are one metric per column that is not a label", () => {
    expect(
      rowMetrics(query, [
        { datname: "a", hits: 1, size: 2.5 },
        { datname: "b", hits: 3, size: null },
      ]),
    ).toEqual([
      {
        ...{ name: "pg_stat_x_hits", help: "hits of pg_stat_x", type: "counter" },
        samples: [
          { labels: { datname: "a" }, value: 1 },
          { labels: { datname: "b" }, value: 3 },
        ],
      },
      {
        ...{ name: "pg_stat_x_size", help: "size of pg_stat_x", type: "gauge" },
        samples: [{ labels: { datname: "a" }, value: 2.5 }],
      },
    ]);
  });

  it("are none without rows", () => {
    expect(rowMetrics(query, [])).toEqual([]);
  });
});
