import type { LoadResult } from "../api/load-result.ts";
import type { GeneratorReport, TimelinePoint } from "../generator/generator-report.ts";
import { LatencyHistogram } from "../generator/latency-histogram.ts";
import { shownErrorPercent } from "./error-percent.ts";

const shownPercentiles = [50, 75, 90, 95, 99, 99.9, 99.99, 100] as const;

/** Shorter loads have no throughput. */
const minSeconds = 0.001;

/** What {@link mergeReports} needs to know about the load. */
export interface ExpectedReports {
  /** Number of workers. */
  readonly workers: number;
  /** Percentiles in addition to the usual ones. */
  readonly percentiles?: readonly number[];
  readonly observedAt?: string;
}

/**
 * The figures of all workers of a generator. Percentiles of finished workers are exact, because their histograms are merged; those of
 * running workers are the highest of any.
 */
export function mergeReports(
  reports: readonly GeneratorReport[],
  { workers, percentiles = [], observedAt }: ExpectedReports,
): LoadResult | undefined {
  if (reports.length === 0) return undefined;
  const sum = (of: (report: GeneratorReport) => number): number => reports.reduce((total, report) => total + of(report), 0);
  const max = (of: (report: GeneratorReport) => number): number => Math.max(...reports.map(of));
  const isOver = reports.every(({ keelsonLoad }) => keelsonLoad === "result");
  const latencies = new LatencyHistogram();
  const isReadable = isOver && reports.every(({ histogram }) => latencies.addEncoded(histogram));
  const isComplete = isReadable && reports.length === workers && reports.every((report) => report.isComplete);
  const [requests, failed, notSent] = [sum((one) => one.requests), sum((one) => one.failed), sum((one) => one.notSent)];
  const seconds = max((one) => one.seconds);
  const shown = [...new Set([...shownPercentiles, ...percentiles])].toSorted((a, b) => a - b);
  return {
    source: "Generator",
    state: isComplete ? "Complete" : isOver ? "Partial" : "Running",
    ...(observedAt === undefined ? {} : { observedAt }),
    workers: reports.length,
    seconds: rounded(seconds),
    ...{ requests, failed, notSent },
    errorPercent: shownErrorPercent({ requests, failed, notSent }) ?? 0,
    requestsPerSecond: seconds >= minSeconds ? rounded(requests / seconds) : 0,
    ...(isReadable
      ? {
          minMilliseconds: rounded(latencies.minMs),
          meanMilliseconds: rounded(latencies.meanMs),
          percentiles: shown.map((percentile) => ({ percentile, milliseconds: rounded(latencies.percentileMs(percentile)) })),
        }
      : {
          percentiles: [
            { percentile: 50, milliseconds: rounded(max(({ p50Ms }) => p50Ms)) },
            { percentile: 99, milliseconds: rounded(max(({ p99Ms }) => p99Ms)) },
          ],
        }),
    statusCodes: sums(reports.map(({ statusCodes }) => statusCodes)),
    errors: sums(reports.map(({ errors }) => errors)),
    bytesReceived: sum((one) => one.bytesReceived),
    maxPauseMilliseconds: rounded(max(({ maxPauseMs }) => maxPauseMs)),
    ...(isOver ? { timeline: mergeTimelines(reports.map(({ timeline }) => timeline)) } : {}),
  };
}

function sums(counts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const total = new Map<string, number>();
  for (const each of counts) for (const [name, count] of Object.entries(each)) total.set(name, (total.get(name) ?? 0) + count);
  return Object.fromEntries(total);
}

/** Adds the points of all workers. Their intervals are equally long, except for the last ones. */
function mergeTimelines(timelines: readonly (readonly TimelinePoint[])[]): NonNullable<LoadResult["timeline"]> {
  const points = new Map<number, NonNullable<LoadResult["timeline"]>[number]>();
  for (const { second, seconds, requests, failed, p99Ms } of timelines.flat()) {
    const start = rounded(second);
    const before = points.get(start) ?? { second: start, seconds: 0, requests: 0, failed: 0, p99Milliseconds: 0 };
    points.set(start, {
      second: start,
      seconds: Math.max(before.seconds, rounded(seconds)),
      requests: before.requests + requests,
      failed: before.failed + failed,
      p99Milliseconds: Math.max(before.p99Milliseconds, rounded(p99Ms)),
    });
  }
  return [...points.values()].toSorted((a, b) => a.second - b.second).slice(0, 120);
}

const rounded = (value: number): number => Number(value.toFixed(3));
