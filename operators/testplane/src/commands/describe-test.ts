import type { DeepReadonly } from "@keelson/api-machinery";
import type { ExpectationResult } from "../api/expectation.ts";
import type { IntegrationTestStatus, RoundSummary, StepStatus } from "../api/integration-test.ts";
import type { LoadTestStatus } from "../api/load-test.ts";
import { roundsText } from "../reports/markdown.ts";
import { type ReportedTest, reportTest } from "../reports/report.ts";
import { printable } from "../reports/printable.ts";
import { describeCriterion } from "../verdicts/load-criteria.ts";

/** Describes a test for people: verdict, steps or load, failed checks with their differences, and rounds. */
export function describeTest(test: ReportedTest, now: number): string {
  const report = reportTest(test);
  const { phase = "Pending", reason, message, startTime, completionTime } = test.object?.status ?? {};
  const isDone = completionTime !== undefined;
  const lines = [
    field("Name", `${report.namespace ?? ""}/${report.name}`),
    field("Kind", report.kind),
    field("Phase", phase),
    ...(isDone ? [field("Verdict", report.verdict)] : []),
    ...(reason === undefined ? [] : [field("Reason", reason)]),
    ...(message === undefined ? [] : [field("Message", message)]),
    ...(startTime === undefined ? [] : [field("Time", secondsText(startTime, completionTime, now))]),
    ...(test.kind === "IntegrationTest"
      ? stepLines(test.object?.status ?? {}, roundsText(report), now)
      : loadLines(test.object?.status ?? {})),
  ];
  return `${printable(lines.join("\n"))}\n`;
}

const field = (name: string, value: string): string => `${`${name}:`.padEnd(12)}${value}`;

function secondsText(from: string, to: string | undefined, now: number): string {
  const seconds = Math.max((to === undefined ? now : Date.parse(to)) - Date.parse(from), 0) / 1_000;
  return `${seconds.toFixed(1)} s${to === undefined ? ", still running" : ""}`;
}

function stepLines(status: DeepReadonly<IntegrationTestStatus>, rounds: string, now: number): readonly string[] {
  const { steps = [], roundHistory = [], failureBundle, currentRound, scenario } = status;
  const round = `round ${currentRound ?? 1}${scenario === undefined ? "" : `, scenario ${scenario}`}`;
  return [
    ...(rounds === "" ? [] : [field("Rounds", rounds)]),
    ...(failureBundle?.configMap === undefined ? [] : [field("Bundle", `ConfigMap ${failureBundle.configMap}`)]),
    ...(steps.length === 0 ? [] : ["", `Steps of ${round}:`, ...steps.flatMap((step) => stepText(step, now))]),
    ...(roundHistory.length < 2 ? [] : ["", "Last rounds:", ...roundHistory.map(roundText)]),
  ];
}

function stepText(step: DeepReadonly<StepStatus>, now: number): readonly string[] {
  const { name, phase, state, verdict, reason, message, startedAt, finishedAt, attempt, expectationResults = [] } = step;
  const results = [...(step.readyConditionStatus?.results ?? []), ...expectationResults];
  const time = startedAt === undefined ? "" : `  ${secondsText(startedAt, finishedAt, now)}`;
  const often = attempt === undefined ? "" : `  attempt ${attempt}`;
  const label = `${phase === undefined ? "" : `${phase}: `}${name}`;
  const text = [reason, message].filter((part) => part !== undefined).join(": ");
  return [
    `  ${label}  ${(verdict ?? state) || "not started"}${time}${often}`,
    ...(text === "" ? [] : [`    ${text}`]),
    ...results.filter(({ passed }) => !passed).flatMap(resultLines),
  ];
}

function resultLines({ expect, message, expected, actual, diff }: DeepReadonly<ExpectationResult>): readonly string[] {
  const values = [
    ...(expected === undefined ? [] : [`      expected: ${expected}`]),
    ...(actual === undefined ? [] : [`      actual:   ${actual}`]),
  ];
  return [
    `    ${expect}: ${message ?? "failed"}`,
    ...(diff === undefined ? values : diff.split("\n").map((line) => `      ${line}`)),
  ];
}

function roundText({
  round,
  outcome,
  verdict,
  scenario,
  durationSeconds,
  failedStep,
  message,
}: DeepReadonly<RoundSummary>): string {
  const what = scenario === undefined ? "" : `  ${scenario}`;
  const failure = failedStep === undefined ? "" : `  ${failedStep}: ${message ?? ""}`;
  return `  ${round}${what}  ${verdict ?? outcome}  ${durationSeconds.toFixed(1)} s${failure}`;
}

function loadLines({
  criteria = [],
  load,
  healthCheckStatus,
  workloadOutput = [],
}: DeepReadonly<LoadTestStatus>): readonly string[] {
  return [
    ...(healthCheckStatus === undefined
      ? []
      : [field("Checks", `${healthCheckStatus.passCount ?? 0} of ${healthCheckStatus.checkCount ?? 0} held`)]),
    ...(load === undefined ? [] : [field("Load", loadText(load))]),
    ...(criteria.length === 0
      ? []
      : ["", "Criteria:", ...criteria.map((each) => `  ${each.state}  ${describeCriterion(each)}`)]),
    ...(workloadOutput.length === 0
      ? []
      : ["", "Output:", ...workloadOutput.map(({ pod, exitCode }) => `  ${pod}  exit code ${exitCode ?? "unknown"}`)]),
  ];
}

function loadText({ requests, requestsPerSecond, errorPercent }: NonNullable<DeepReadonly<LoadTestStatus>["load"]>): string {
  return [
    ...(requests === undefined ? [] : [`${requests} requests`]),
    ...(requestsPerSecond === undefined ? [] : [`${requestsPerSecond} per second`]),
    ...(errorPercent === undefined ? [] : [`${errorPercent} % errors`]),
  ].join(", ");
}
