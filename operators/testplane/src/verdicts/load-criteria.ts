import type { DeepReadonly } from "@keelson/api-machinery";
import type { CriterionResult, LoadResult } from "../api/load-result.ts";
import type { LoadTestSpec, LoadTestStatus } from "../api/load-test.ts";
import { errorPercentOf } from "../load-results/error-percent.ts";

/** Compares what was measured with the success criteria of a load that has ended. */
export function judgeCriteria(
  { successCriteria = {}, workload }: DeepReadonly<LoadTestSpec>,
  status: DeepReadonly<LoadTestStatus>,
): readonly CriterionResult[] {
  const { checkCount = 0, passCount = 0 } = status.healthCheckStatus ?? {};
  const load = status.load?.state === "Complete" ? status.load : undefined;
  const { minPassPercent = 100, minRequestsPerSecond, minCheckPercent, maxTargetRestarts } = successCriteria;
  const { latency = [] } = successCriteria;
  // A load that failed throughout must not pass because no limit was set.
  const maxErrorPercent = successCriteria.maxErrorPercent ?? (workload.generator === undefined ? undefined : 0);
  const checks = (load?.checksPassed ?? 0) + (load?.checksFailed ?? 0);
  return [
    ...(checkCount === 0 ? [] : [atLeast("minPassPercent", minPassPercent, (passCount * 100) / checkCount, "%")]),
    ...optional(maxErrorPercent, (max) => atMost("maxErrorPercent", max, load && errorPercentOf(load), "%")),
    ...optional(minRequestsPerSecond, (min) => atLeast("minRequestsPerSecond", min, load?.requestsPerSecond, "requests/s")),
    ...latency.map(({ percentile, maxMilliseconds }) => {
      const limit = atMost(`latency p${percentile}`, maxMilliseconds, latencyAt(load, percentile), "ms");
      const isBlurred = limit.state === "NotMet" && explainsLatency(load, percentile, maxMilliseconds);
      return isBlurred ? { ...limit, state: "Unknown" as const } : limit;
    }),
    ...optional(minCheckPercent, (min) =>
      atLeast("minCheckPercent", min, checks === 0 ? undefined : ((load?.checksPassed ?? 0) * 100) / checks, "%"),
    ),
    ...optional(maxTargetRestarts, (max) => atMost("maxTargetRestarts", max, status.targetRestarts, "restarts")),
  ];
}

/** The measured latency at a percentile. */
function latencyAt(load: DeepReadonly<LoadResult> | undefined, percentile: number): number | undefined {
  return load?.percentiles?.find((each) => each.percentile === percentile)?.milliseconds;
}

/**
 * Whether the longest pause of a worker alone made so many latencies exceed the limit: those of the requests that were due in the pause, except
 * for its last milliseconds.
 */
function explainsLatency(load: DeepReadonly<LoadResult> | undefined, percentile: number, maxMilliseconds: number): boolean {
  const { maxPauseMilliseconds = 0, seconds = 0 } = load ?? {};
  const late = maxPauseMilliseconds - maxMilliseconds;
  return late > 0 && seconds > 0 && late / (seconds * 1_000) >= (100 - percentile) / 100;
}

const optional = (limit: number | undefined, judge: (limit: number) => CriterionResult): readonly CriterionResult[] =>
  limit === undefined ? [] : [judge(limit)];

const atMost = (name: string, max: number, actual: number | undefined, unit: string): CriterionResult =>
  resultOf(name, `at most ${max} ${unit}`, actual, unit, (value) => value <= max);

const atLeast = (name: string, min: number, actual: number | undefined, unit: string): CriterionResult =>
  resultOf(name, `at least ${min} ${unit}`, actual, unit, (value) => value >= min);

function resultOf(
  name: string,
  expected: string,
  actual: number | undefined,
  unit: string,
  isMet: (actual: number) => boolean,
): CriterionResult {
  if (actual === undefined) return { name, expected, state: "Unknown" };
  const [rounded, met] = [Number(actual.toPrecision(6)), isMet(actual)];
  // A value that misses the limit by a rounding error is not shown as the limit.
  const shown = `${isMet(rounded) === met ? rounded : actual} ${unit}`;
  return { name, expected, actual: shown, state: met ? "Met" : "NotMet" };
}

/** What a criterion says, such as `latency p99 is 312 ms, must be at most 200 ms`. */
export const describeCriterion = ({ name, expected, actual }: DeepReadonly<CriterionResult>): string =>
  `${name} is ${actual ?? "unknown"}, must be ${expected}`;

/** A measured load in one line. */
export function describeLoad({
  requests,
  requestsPerSecond,
  errorPercent,
  percentiles = [],
}: DeepReadonly<LoadResult>): string {
  const p99 = percentiles.find(({ percentile }) => percentile === 99);
  const latency = p99 === undefined ? "" : `, p99 ${p99.milliseconds} ms`;
  const failures = errorPercent === undefined ? "" : `, ${errorPercent} % failed`;
  return `${requests ?? "unknown"} requests (${requestsPerSecond ?? "unknown"}/s)${failures}${latency}`;
}
