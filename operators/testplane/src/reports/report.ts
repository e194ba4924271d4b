import type { DeepReadonly } from "@keelson/api-machinery";
import type { ExpectationResult } from "../api/expectation.ts";
import type { IntegrationTest, RoundSummary, StepStatus } from "../api/integration-test.ts";
import type { LoadTest, LoadTestStatus } from "../api/load-test.ts";
import type { CriterionResult, LoadResult } from "../api/load-result.ts";
import { parseRanges } from "../api/round-ranges.ts";
import { describeCriterion } from "../verdicts/load-criteria.ts";
import { type HistogramBar, histogramBars } from "../verdicts/duration-histogram.ts";
import type { PassRate } from "../verdicts/pass-rate.ts";
import { type RoundVerdict, type Verdict, type VerdictCounts, verdictOfReason } from "../verdicts/verdict.ts";

/** A test with its last known state. */
export type ReportedTest = { readonly name: string; readonly namespace?: string } & (
  | { readonly kind: "IntegrationTest"; readonly object: DeepReadonly<IntegrationTest> | undefined }
  | { readonly kind: "LoadTest"; readonly object: DeepReadonly<LoadTest> | undefined }
);

/** A step, or a round if there are several, or the load. `error`: it did not finish, or the test is invalid. */
export interface CaseReport {
  readonly name: string;
  readonly seconds: number;
  readonly outcome: "passed" | "failed" | "skipped" | "error";
  readonly message?: string;
  readonly details?: string;
  /** Seconds from the start of the test or round to the start of the case. A case without it and with 0 seconds has no known time. */
  readonly startSeconds?: number;
}

/** Verdict of a test in reports. */
export type ReportVerdict = Lowercase<Verdict>;

/** The result of a test. All output formats and the exit code are derived from it, so that they cannot disagree. */
export interface TestReport {
  readonly kind: ReportedTest["kind"];
  /** Namespace of the test, if it is known. */
  readonly namespace?: string;
  readonly name: string;
  readonly verdict: ReportVerdict;
  /** Whether the test counts as successful: it passed, or it is flaky and quarantined. */
  readonly isSuccess: boolean;
  readonly reason: string;
  readonly message: string;
  readonly seconds: number;
  readonly rounds?: RoundsReport;
  /** Unless `isSuccess`, at least one case has failed or is an error; otherwise none is. */
  readonly cases: readonly CaseReport[];
  readonly output?: DeepReadonly<NonNullable<LoadTestStatus["workloadOutput"]>>;
  readonly outputConfigMap?: string;
  /** Measured load of a LoadTest. */
  readonly load?: DeepReadonly<LoadResult>;
  /** Health checks of a LoadTest. */
  readonly healthChecks?: { readonly held: number; readonly failed: number };
  /** ConfigMap with the objects, events and logs of the first failed round. */
  readonly failureBundle?: string;
}

/** Statistics of all rounds. */
export interface RoundsReport {
  readonly completed: number;
  readonly failed: number;
  readonly verdicts: VerdictCounts;
  readonly passRate?: PassRate;
  readonly minSeconds: number;
  readonly meanSeconds: number;
  readonly p50Seconds?: number;
  readonly p95Seconds?: number;
  readonly maxSeconds: number;
  /** Histogram of the durations. */
  readonly durations?: readonly HistogramBar[];
}

/** Reports a test. */
export function reportTest(test: ReportedTest): TestReport {
  const { kind, name, namespace, object } = test;
  const status = object?.status;
  const seconds = secondsBetween(status?.startTime, status?.completionTime);
  const result = resultOf(status);
  const rounds = test.kind === "IntegrationTest" ? roundsOf(test.object?.status) : undefined;
  const cases = status?.completionTime === undefined ? [] : casesOf(test, seconds);
  return {
    ...{ kind, name, seconds },
    ...(namespace === undefined ? {} : { namespace }),
    ...result,
    ...(rounds === undefined ? {} : { rounds }),
    cases: consistentCases(result, cases, seconds),
    ...(test.kind === "LoadTest" ? loadOf(test.object?.status) : bundleOf(test.object?.status)),
  };
}

type Result = Pick<TestReport, "verdict" | "isSuccess" | "reason" | "message">;

/** The cases of a test, changed so that they agree with its verdict. */
function consistentCases(
  { isSuccess, verdict, reason, message }: Result,
  cases: readonly CaseReport[],
  seconds: number,
): readonly CaseReport[] {
  const isBad = ({ outcome }: CaseReport): boolean => outcome === "failed" || outcome === "error";
  if (isSuccess) {
    if (cases.length === 0) return [{ name: "test", seconds, outcome: "passed" }];
    return cases.map((each) =>
      isBad(each) ? { ...each, outcome: "skipped", message: joined("quarantined", each.message ?? "") } : each,
    );
  }
  if (cases.some(isBad)) return cases;
  const outcome = verdict === "error" || verdict === "inconclusive" ? "error" : "failed";
  return [...cases, { name: "test", seconds, outcome, message: joined(reason, message) }];
}

function roundsOf(status: DeepReadonly<IntegrationTest["status"]>): RoundsReport | undefined {
  const { completedRounds = 0, failedRounds = 0, roundDurations, roundVerdicts, passRate } = status ?? {};
  if (roundDurations === undefined || completedRounds === 0) return undefined;
  const { minSeconds, maxSeconds, totalSeconds, p50Seconds, p95Seconds, histogram } = roundDurations;
  return {
    completed: completedRounds,
    failed: failedRounds,
    verdicts: roundVerdicts ?? { passed: completedRounds - failedRounds, failed: failedRounds },
    ...(passRate === undefined ? {} : { passRate }),
    minSeconds,
    meanSeconds: totalSeconds / completedRounds,
    ...(p50Seconds === undefined ? {} : { p50Seconds }),
    ...(p95Seconds === undefined ? {} : { p95Seconds }),
    maxSeconds,
    ...(histogram === undefined ? {} : { durations: histogramBars(histogram, 40) }),
  };
}

function loadOf(
  status: DeepReadonly<LoadTestStatus> | undefined,
): Pick<TestReport, "output" | "outputConfigMap" | "load" | "healthChecks"> {
  const { workloadOutput: output, outputConfigMap, load, healthCheckStatus } = status ?? {};
  const { passCount: held = 0, failCount: failed = 0 } = healthCheckStatus ?? {};
  return {
    ...(output === undefined ? {} : { output }),
    ...(outputConfigMap === undefined ? {} : { outputConfigMap }),
    ...(load === undefined ? {} : { load }),
    ...(healthCheckStatus === undefined ? {} : { healthChecks: { held, failed } }),
  };
}

function bundleOf(status: DeepReadonly<IntegrationTest["status"]>): Pick<TestReport, "failureBundle"> {
  const failureBundle = status?.failureBundle?.configMap;
  return failureBundle === undefined ? {} : { failureBundle };
}

function resultOf(status: ReportedStatus): Result {
  const { phase, reason = "", message = "", completionTime, verdict } = status ?? {};
  if (completionTime === undefined) {
    const text = `the test did not finish: ${message || (phase ?? "not started")}`;
    return { verdict: "inconclusive", isSuccess: false, reason: "NotFinished", message: text };
  }
  const isSuccess = phase === "Succeeded";
  // A test that an earlier version of the operator finished has no verdict.
  const known: Verdict = verdict ?? (isSuccess ? "Passed" : verdictOfReason(reason));
  return { verdict: known.toLowerCase() as ReportVerdict, isSuccess, reason, message };
}

type ReportedStatus = NonNullable<ReportedTest["object"]>["status"];

function casesOf(test: ReportedTest, seconds: number): readonly CaseReport[] {
  if (test.kind === "LoadTest") {
    const { phase, reason = "", message = "", verdict, criteria = [] } = test.object?.status ?? {};
    const judged = criteria.map(criterionCase);
    if (phase === "Succeeded") return [{ name: "load", seconds, outcome: "passed" }, ...judged];
    const outcome = outcomeOf(verdict ?? verdictOfReason(reason));
    return [{ name: "load", seconds, outcome, message: joined(reason, message) }, ...judged];
  }
  const status = test.object?.status ?? {};
  const rounds = roundCases(status);
  return rounds.length > 1 ? rounds : stepCases(status);
}

function criterionCase(criterion: DeepReadonly<CriterionResult>): CaseReport {
  const { name, expected, state } = criterion;
  const one = { name: `${name} ${expected}`, seconds: 0 };
  if (state === "Met") return { ...one, outcome: "passed" };
  return { ...one, outcome: state === "NotMet" ? "failed" : "error", message: describeCriterion(criterion) };
}

/** The outcome of a case that did not pass. */
const outcomeOf = (verdict: RoundVerdict | undefined): "failed" | "error" =>
  verdict === "Error" || verdict === "Inconclusive" ? "error" : "failed";

/** One case per round, including for rounds that are no longer in the history. */
function roundCases(status: DeepReadonly<NonNullable<IntegrationTest["status"]>>): readonly CaseReport[] {
  const { completedRounds = 0, roundHistory = [], failedRoundHistory = [] } = status;
  const summaries = new Map<number, DeepReadonly<RoundSummary>>();
  for (const summary of [...failedRoundHistory, ...roundHistory]) summaries.set(summary.round, summary);
  const failed = parseRanges(status.failedRoundRanges);
  const numbers = new Set(Array.from({ length: completedRounds }, (_, index) => index + 1));
  for (const round of summaries.keys()) numbers.add(round);
  return [...numbers]
    .sort((a, b) => a - b)
    .map((round): CaseReport => {
      const summary = summaries.get(round);
      const name = `round ${round}`;
      const seconds = summary?.durationSeconds ?? 0;
      if (summary?.outcome === "Stopped") return { name, seconds, outcome: "skipped" };
      if (summary?.outcome !== "Failed" && !failed.has(round)) return { name, seconds, outcome: "passed" };
      const message =
        summary === undefined
          ? "the round failed; its details are no longer stored"
          : joined(summary.failedStep ?? "", summary.message ?? "");
      return { name, seconds, outcome: outcomeOf(summary?.verdict), message };
    });
}

function stepCases(status: DeepReadonly<NonNullable<IntegrationTest["status"]>>): readonly CaseReport[] {
  const { steps = [], finalExpectations, message } = status;
  const cases = steps.map((step) => stepCase(step, status.roundStartedAt));
  if (finalExpectations === undefined) return cases;
  const hasPassed = finalExpectations.state === "Passed";
  return [
    ...cases,
    {
      name: "finalExpectations",
      seconds: 0,
      outcome: hasPassed ? "passed" : "failed",
      ...(hasPassed ? {} : { message: message ?? "" }),
    },
  ];
}

function stepCase(step: DeepReadonly<StepStatus>, roundStartedAt: string | undefined): CaseReport {
  const { name, state, reason = "", message = "", verdict } = step;
  const seconds = secondsBetween(step.startedAt, step.finishedAt);
  const start = step.startedAt === undefined ? {} : { startSeconds: secondsBetween(roundStartedAt, step.startedAt) };
  if (state === "Succeeded") return { name, seconds, ...start, outcome: "passed" };
  if (state !== "Failed") return { name, seconds, ...start, outcome: "skipped" };
  const details = [...(step.readyConditionStatus?.results ?? []), ...(step.expectationResults ?? [])].flatMap(resultLines);
  const outcome = outcomeOf(verdict ?? verdictOfReason(reason));
  return { name, seconds, ...start, outcome, message: joined(reason, message), details: details.join("\n") };
}

/** What was expected and what was found instead; nothing for a check that held. */
function resultLines(result: DeepReadonly<ExpectationResult>): readonly string[] {
  if (result.passed) return [];
  const { expect, message = "", actual, expected, since, diff } = result;
  const held = since === undefined ? "" : `, since ${since}`;
  const shown = actual === undefined ? "" : ` (actual: ${actual}${held})`;
  const lines = diff ?? (expected === undefined ? "" : `- ${expected}\n+ ${actual ?? "absent"}`);
  return [`${joined(expect, message)}${shown}`, ...(lines === "" ? [] : lines.split("\n"))];
}

const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join(": ");

function secondsBetween(from: string | undefined, to: string | undefined): number {
  if (from === undefined || to === undefined) return 0;
  return Math.max(Date.parse(to) - Date.parse(from), 0) / 1_000;
}
