import type { ProgramMetric } from "@keelson/middleware-agent";
import { type PostgresAddress, PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import { type MetricQuery, metricQueries } from "./metric-queries.ts";
import { type Row, rowMetrics } from "./row-metrics.ts";
import { type Setting, settingMetrics, settingsText } from "./setting-metrics.ts";

/** A scrape has 3 s. */
const timeoutMs = 2_000;

const up = (value: 0 | 1): ProgramMetric => ({
  name: "pg_up",
  help: "Whether the server answers",
  type: "gauge",
  samples: [{ labels: {}, value }],
});

/**
 * Reads the metrics of a server, with a connection of its own: a statement that takes too long must not end another one. `pg_up 0` alone
 * if it does not answer. Metrics that cannot be read are left out.
 */
export async function readMetrics(address: PostgresAddress): Promise<readonly ProgramMetric[]> {
  const found: ProgramMetric[] = [];
  try {
    await using connection = await PostgresConnection.open({ ...address, timeoutMs });
    found.push(...settingMetrics(await rowsOf<Setting>(connection, settingsText)));
    for (const query of metricQueries) found.push(...(await metricsOf(connection, query)));
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    if (found.length === 0) return [up(0)];
  }
  return [up(1), ...found];
}

/** None if the server rejects the statement. Rejects if it does not answer. */
async function metricsOf(connection: PostgresConnection, query: MetricQuery): Promise<readonly ProgramMetric[]> {
  try {
    return rowMetrics(query, await rowsOf<Row>(connection, query.text));
  } catch (error) {
    if (error instanceof PostgresError && error.code === "Refused") return [];
    throw error;
  }
}

async function rowsOf<T>(connection: PostgresConnection, text: string): Promise<readonly T[]> {
  const [row] = await connection.run(`SELECT coalesce(json_agg(row), '[]')::text AS rows FROM (${text}) AS row`);
  return JSON.parse(row?.["rows"] ?? "[]") as readonly T[];
}
