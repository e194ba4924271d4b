import type { LoadResult } from "../api/load-result.ts";

/** Adds the figures of several k6 processes. Percentiles are dropped: those of separate processes cannot be merged. */
export function mergeK6(results: readonly LoadResult[]): LoadResult | undefined {
  const [first, ...others] = results;
  if (first === undefined || others.length === 0) return first;
  const sum = (of: (result: LoadResult) => number): number => results.reduce((total, result) => total + of(result), 0);
  const requests = sum((result) => result.requests);
  const failed = sum((result) => result.failed);
  const hasChecks = results.some(({ checksPassed }) => checksPassed !== undefined);
  return {
    source: "K6",
    state: "Complete",
    workers: results.length,
    seconds: Math.max(...results.map(({ seconds }) => seconds)),
    requests,
    failed,
    errorPercent: requests === 0 ? 0 : Number(((failed / requests) * 100).toFixed(3)),
    requestsPerSecond: Number(sum((result) => result.requestsPerSecond).toFixed(3)),
    ...(hasChecks
      ? {
          checksPassed: sum(({ checksPassed = 0 }) => checksPassed),
          checksFailed: sum(({ checksFailed = 0 }) => checksFailed),
        }
      : {}),
  };
}
