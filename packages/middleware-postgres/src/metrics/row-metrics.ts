import type { ProgramMetric, ProgramMetricSample } from "@keelson/middleware-agent";
import type { MetricQuery } from "./metric-queries.ts";

/** A row as JSON. */
export type Row = Readonly<Record<string, string | number | null>>;

/** The rows of a query as metrics: one for each column that is not a label. Values that are null are left out. Pure. */
export function rowMetrics(
  { prefix, labels: labelNames, counters }: MetricQuery,
  rows: readonly Row[],
): readonly ProgramMetric[] {
  const names = Object.keys(rows[0] ?? {}).filter((name) => !labelNames.includes(name));
  return names.flatMap((name) => {
    const samples = rows.flatMap((row): readonly ProgramMetricSample[] => {
      const value = row[name];
      if (value === null || value === undefined || Number.isNaN(Number(value))) return [];
      return [
        { labels: Object.fromEntries(labelNames.map((label) => [label, String(row[label] ?? "")])), value: Number(value) },
      ];
    });
    if (samples.length === 0) return [];
    const type = counters.includes(name) ? ("counter" as const) : ("gauge" as const);
    return [{ name: `${prefix}_${name}`, help: `${name} of ${prefix}`, type, samples }];
  });
}
