import type { DeepReadonly } from "@keelson/api-machinery";
import type { IntegrationTest } from "../api/integration-test.ts";
import type { LoadTest } from "../api/load-test.ts";

/** A test in a report. */
export type ReportedTest =
  | { readonly kind: "IntegrationTest"; readonly name: string; readonly object: DeepReadonly<IntegrationTest> | undefined }
  | { readonly kind: "LoadTest"; readonly name: string; readonly object: DeepReadonly<LoadTest> | undefined };

interface Case {
  readonly name: string;
  readonly seconds: number;
  readonly outcome: "passed" | "failed" | "skipped" | "error";
  readonly message?: string | undefined;
  readonly details?: string | undefined;
}

/** Renders a JUnit report: one suite per test with one case per step, or one case per round if there are several. */
export function junitReport(tests: readonly ReportedTest[]): string {
  const suites = tests.map((test) => ({ name: test.name, seconds: secondsOf(test.object?.status), cases: casesOf(test) }));
  const all = suites.flatMap(({ cases }) => cases);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="keelson testplane" ${counts(all)} time="${seconds(suites.reduce((sum, each) => sum + each.seconds, 0))}">`,
  ];
  for (const suite of suites) {
    lines.push(`  <testsuite name="${escape(suite.name)}" ${counts(suite.cases)} time="${seconds(suite.seconds)}">`);
    for (const each of suite.cases) lines.push(...caseLines(suite.name, each));
    lines.push("  </testsuite>");
  }
  lines.push("</testsuites>", "");
  return lines.join("\n");
}

function casesOf({ kind, object }: ReportedTest): readonly Case[] {
  const status = object?.status;
  if (status === undefined || status.completionTime === undefined) {
    return [
      {
        name: "test",
        seconds: secondsOf(status),
        outcome: "error",
        message: `the test did not finish: ${status?.message ?? status?.phase ?? "not started"}`,
      },
    ];
  }
  if (kind === "LoadTest" || object === undefined || !("steps" in object.spec)) {
    const outcome = status.phase === "Succeeded" ? "passed" : "failed";
    return [{ name: "load", seconds: secondsOf(status), outcome, message: `${status.reason ?? ""}: ${status.message ?? ""}` }];
  }
  const { steps = [], roundHistory = [], finalExpectations, reason } = object.status ?? {};
  if (roundHistory.length > 1) {
    return roundHistory.map((round) => ({
      name: `round ${round.round}`,
      seconds: round.durationSeconds,
      outcome:
        round.outcome === "Succeeded"
          ? ("passed" as const)
          : round.outcome === "Failed"
            ? ("failed" as const)
            : ("skipped" as const),
      message: round.failedStep === undefined ? undefined : `${round.failedStep}: ${round.message ?? ""}`,
    }));
  }
  if (steps.length === 0)
    return [{ name: "test", seconds: 0, outcome: "error", message: `${reason ?? ""}: ${status.message ?? ""}` }];
  const cases: Case[] = steps.map((step) => ({
    name: step.name,
    seconds:
      step.startedAt === undefined || step.finishedAt === undefined
        ? 0
        : Math.max(Date.parse(step.finishedAt) - Date.parse(step.startedAt), 0) / 1_000,
    outcome: step.state === "Succeeded" ? "passed" : step.state === "Failed" ? "failed" : "skipped",
    message: step.state === "Failed" ? `${step.reason ?? ""}: ${step.message ?? ""}` : undefined,
    details: [...(step.readyConditionStatus?.results ?? []), ...(step.expectationResults ?? [])]
      .filter(({ passed }) => !passed)
      .map(
        (result) =>
          `${result.expect}: ${result.message ?? ""}${result.actual === undefined ? "" : ` (actual: ${result.actual})`}`,
      )
      .join("\n"),
  }));
  if (finalExpectations !== undefined) {
    cases.push({
      name: "finalExpectations",
      seconds: 0,
      outcome: finalExpectations.state === "Passed" ? "passed" : "failed",
      message: finalExpectations.state === "Passed" ? undefined : status.message,
    });
  }
  return cases;
}

function caseLines(suite: string, { name, seconds: took, outcome, message = "", details = "" }: Case): readonly string[] {
  const open = `    <testcase classname="${escape(suite)}" name="${escape(name)}" time="${seconds(took)}"`;
  if (outcome === "passed") return [`${open}/>`];
  if (outcome === "skipped") return [`${open}>`, "      <skipped/>", "    </testcase>"];
  const tag = outcome === "error" ? "error" : "failure";
  return [`${open}>`, `      <${tag} message="${escape(message)}">${escape(details || message)}</${tag}>`, "    </testcase>"];
}

function counts(cases: readonly Case[]): string {
  const count = (outcome: Case["outcome"]): number => cases.filter((each) => each.outcome === outcome).length;
  return `tests="${cases.length}" failures="${count("failed")}" errors="${count("error")}" skipped="${count("skipped")}"`;
}

function secondsOf(
  status: { readonly startTime?: string | undefined; readonly completionTime?: string | undefined } | undefined,
): number {
  if (status?.startTime === undefined || status.completionTime === undefined) return 0;
  return Math.max(Date.parse(status.completionTime) - Date.parse(status.startTime), 0) / 1_000;
}

const seconds = (value: number): string => value.toFixed(3);

/** Escapes text for XML 1.0 and replaces characters that XML cannot represent. */
function escape(text: string): string {
  return (
    text
      .replaceAll(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that XML has no way to write.
      .replaceAll(
        /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
        "\ufffd",
      )
      .replaceAll(/[\n\r\t]/g, (mark) => `&#${mark.charCodeAt(0)};`)
  );
}
