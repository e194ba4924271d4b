import type { Clock } from "@keelson/api-machinery/time";
import type { ProgramMetric } from "@keelson/middleware-agent";
import { type PostgresAddress, PostgresConnection, PostgresError } from "../server/postgres-client.ts";
import { type MetricQuery, metricQueries } from "./metric-queries.ts";
import { type Row, rowMetrics } from "./row-metrics.ts";
import { type Setting, settingMetrics, settingsText } from "./setting-metrics.ts";

/** All statements together. A scrape has 3 s. */
const timeoutMs = 2_000;

const up = (value: 0 | 1): ProgramMetric => ({
  name: "pg_up",
  help: "Whether the server responds",
  type: "gauge",
  samples: [{ labels: {}, value }],
});

/** Reads the metrics of a server, once at a time: scrapes that arrive meanwhile share the result. */
export class MetricsReader {
  readonly #address: PostgresAddress;
  readonly #clock: Clock;
  #reading: Promise<readonly ProgramMetric[]> | undefined;

  constructor(address: PostgresAddress, clock: Clock) {
    this.#address = address;
    this.#clock = clock;
  }

  /** `pg_up 0` alone if the server does not respond. Metrics that cannot be read within 2 s are left out. */
  readonly read = (): Promise<readonly ProgramMetric[]> => {
    this.#reading ??= readMetrics(this.#address, this.#clock).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  };
}

/** Has its own connection: a statement that takes too long must not end another one. */
async function readMetrics(address: PostgresAddress, clock: Clock): Promise<readonly ProgramMetric[]> {
  const found: ProgramMetric[] = [];
  const deadline = clock.monotonic() + timeoutMs;
  const remainingMs = (): number => Math.ceil(deadline - clock.monotonic());
  try {
    // The server ends a statement whose client has gone only by itself, so that slow scrapes would collect sessions.
    await using connection = await PostgresConnection.open({ ...address, timeoutMs, statementTimeoutMs: timeoutMs });
    const rowsOf = async <T>(text: string): Promise<readonly T[]> => {
      const leftMs = remainingMs();
      if (leftMs <= 0) throw new PostgresError("Unreachable", `the metrics were not read within ${timeoutMs} ms`);
      const all = `SELECT coalesce(json_agg(row), '[]')::text AS rows FROM (${text}) AS row`;
      const [row] = await connection.run(all, [], leftMs);
      return JSON.parse(row?.["rows"] ?? "[]") as readonly T[];
    };
    found.push(...settingMetrics(await rowsOf<Setting>(settingsText)));
    for (const query of metricQueries) found.push(...(await metricsOf(rowsOf, query)));
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    if (found.length === 0) return [up(0)];
  }
  return [up(1), ...found];
}

/** None if the server rejects the statement. Rejects if it does not respond. */
async function metricsOf(
  rowsOf: (text: string) => Promise<readonly Row[]>,
  query: MetricQuery,
): Promise<readonly ProgramMetric[]> {
  try {
    return rowMetrics(query, await rowsOf(query.text));
  } catch (error) {
    if (error instanceof PostgresError && error.code === "Refused") return [];
    throw error;
  }
}
