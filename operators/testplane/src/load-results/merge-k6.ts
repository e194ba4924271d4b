import type { LoadResult } from "../api/load-result.ts";
import { knownFigures } from "./k6-figures.ts";

/**
 * Adds the figures of several k6 processes. A figure that one of them did not report is absent, except for checks, which a script need
 * not have. Percentiles are dropped: those of separate processes cannot be merged.
 */
export function mergeK6(results: readonly LoadResult[]): LoadResult | undefined {
  const [first, ...others] = results;
  if (first === undefined || others.length === 0) return first;
  const sum = (of: (result: LoadResult) => number): number => results.reduce((total, result) => total + of(result), 0);
  /** NaN, and thus undefined, if a process did not report the figure. */
  const known = (of: (result: LoadResult) => number | undefined): number | undefined => {
    const total = sum((result) => of(result) ?? Number.NaN);
    return Number.isNaN(total) ? undefined : total;
  };
  const hasChecks = results.some(({ checksPassed }) => checksPassed !== undefined);
  return {
    source: "K6",
    state: "Complete",
    workers: results.length,
    seconds: Math.max(...results.map(({ seconds }) => seconds)),
    ...knownFigures({
      requests: known(({ requests }) => requests),
      failed: known(({ failed }) => failed),
      requestsPerSecond: known(({ requestsPerSecond }) => requestsPerSecond),
    }),
    ...(hasChecks
      ? {
          checksPassed: sum(({ checksPassed = 0 }) => checksPassed),
          checksFailed: sum(({ checksFailed = 0 }) => checksFailed),
        }
      : {}),
  };
}
