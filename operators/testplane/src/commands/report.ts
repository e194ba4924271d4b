import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTest, RoundSummary, StepStatus } from "../api/integration-test.ts";
import type { LoadTest, LoadTestStatus } from "../api/load-test.ts";
import { parseRanges } from "../api/round-ranges.ts";

/** A test with its last known state. */
export type ReportedTest =
  | { readonly kind: "IntegrationTest"; readonly name: string; readonly object: DeepReadonly<IntegrationTest> | undefined }
  | { readonly kind: "LoadTest"; readonly name: string; readonly object: DeepReadonly<LoadTest> | undefined };

/** A step, or a round if there are several, or the load. `error`: it did not finish, or the test is invalid. */
export interface CaseReport {
  readonly name: string;
  readonly seconds: number;
  readonly outcome: "passed" | "failed" | "skipped" | "error";
  readonly message?: string;
  readonly details?: string;
}

/** The result of a test. All output formats and the exit code are derived from it, so that they cannot disagree. */
export interface TestReport {
  readonly kind: ReportedTest["kind"];
  readonly name: string;
  readonly verdict: "passed" | "failed" | "error";
  readonly reason: string;
  readonly message: string;
  readonly seconds: number;
  readonly rounds?: {
    readonly completed: number;
    readonly failed: number;
    readonly minSeconds: number;
    readonly meanSeconds: number;
    readonly maxSeconds: number;
  };
  /** At least one case is not passed or skipped unless the verdict is `passed`. */
  readonly cases: readonly CaseReport[];
  readonly output?: DeepReadonly<NonNullable<LoadTestStatus["workloadOutput"]>>;
  readonly outputConfigMap?: string;
}

/** Reports a test. */
export function reportTest(test: ReportedTest): TestReport {
  const { kind, name, object } = test;
  const status = object?.status;
  const seconds = secondsBetween(status?.startTime, status?.completionTime);
  const { verdict, reason, message } = verdictOf(status);
  const summary = { kind, name, verdict, reason, message, seconds };
  const cases = status?.completionTime === undefined ? [] : casesOf(test, seconds);
  const isConsistent = verdict === "passed" || cases.some(({ outcome }) => outcome === "failed" || outcome === "error");
  const all: readonly CaseReport[] =
    isConsistent && cases.length > 0
      ? cases
      : [
          ...cases,
          { name: "test", seconds, outcome: verdict, ...(verdict === "passed" ? {} : { message: joined(reason, message) }) },
        ];
  if (test.kind === "LoadTest") {
    const { workloadOutput: output, outputConfigMap } = test.object?.status ?? {};
    return {
      ...summary,
      cases: all,
      ...(output === undefined ? {} : { output }),
      ...(outputConfigMap === undefined ? {} : { outputConfigMap }),
    };
  }
  const { completedRounds = 0, failedRounds = 0, roundDurations } = test.object?.status ?? {};
  if (roundDurations === undefined || completedRounds === 0) return { ...summary, cases: all };
  const { minSeconds, maxSeconds, totalSeconds } = roundDurations;
  const meanSeconds = totalSeconds / completedRounds;
  return {
    ...summary,
    cases: all,
    rounds: { completed: completedRounds, failed: failedRounds, minSeconds, meanSeconds, maxSeconds },
  };
}

function verdictOf(status: ReportedStatus): Pick<TestReport, "verdict" | "reason" | "message"> {
  const { phase, reason = "", message = "", completionTime } = status ?? {};
  if (completionTime === undefined) {
    return {
      verdict: "error",
      reason: "NotFinished",
      message: `the test did not finish: ${message || (phase ?? "not started")}`,
    };
  }
  if (phase === "Succeeded") return { verdict: "passed", reason, message };
  return { verdict: reason === "InvalidConfig" ? "error" : "failed", reason, message };
}

type ReportedStatus = NonNullable<ReportedTest["object"]>["status"];

function casesOf(test: ReportedTest, seconds: number): readonly CaseReport[] {
  if (test.kind === "LoadTest") {
    const { phase, reason = "", message = "" } = test.object?.status ?? {};
    if (phase === "Succeeded") return [{ name: "load", seconds, outcome: "passed" }];
    return [
      { name: "load", seconds, outcome: reason === "InvalidConfig" ? "error" : "failed", message: joined(reason, message) },
    ];
  }
  const status = test.object?.status ?? {};
  const rounds = roundCases(status);
  return rounds.length > 1 ? rounds : stepCases(status);
}

/** One case per round, also for rounds that are no longer in the history. */
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
      return { name, seconds, outcome: "failed", message };
    });
}

function stepCases(status: DeepReadonly<NonNullable<IntegrationTest["status"]>>): readonly CaseReport[] {
  const { steps = [], finalExpectations, message } = status;
  const cases = steps.map(stepCase);
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

function stepCase(step: DeepReadonly<StepStatus>): CaseReport {
  const { name, state, reason = "", message = "" } = step;
  const seconds = secondsBetween(step.startedAt, step.finishedAt);
  if (state === "Succeeded") return { name, seconds, outcome: "passed" };
  if (state !== "Failed") return { name, seconds, outcome: "skipped" };
  const details = [...(step.readyConditionStatus?.results ?? []), ...(step.expectationResults ?? [])]
    .filter(({ passed }) => !passed)
    .map(
      (result) =>
        `${joined(result.expect, result.message ?? "")}${result.actual === undefined ? "" : ` (actual: ${result.actual})`}`,
    );
  return { name, seconds, outcome: "failed", message: joined(reason, message), details: details.join("\n") };
}

const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join(": ");

function secondsBetween(from: string | undefined, to: string | undefined): number {
  if (from === undefined || to === undefined) return 0;
  return Math.max(Date.parse(to) - Date.parse(from), 0) / 1_000;
}
