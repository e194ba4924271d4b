import { printable } from "./printable.ts";
import type { CaseReport, TestReport } from "./report.ts";

/** Maximum cases that did not pass and are listed per test. */
const maxCases = 20;

/** Renders a report in GitHub-flavored Markdown, such as for a job summary. */
export function markdownReport(tests: readonly TestReport[]): string {
  const successes = tests.filter(({ isSuccess }) => isSuccess).length;
  const lines = [
    `## ${successes} of ${tests.length} tests succeeded`,
    "",
    "| Test | Verdict | Rounds | Time | Message |",
    "|---|---|---|---|---|",
    ...tests.map(
      (test) =>
        `| ${cell(test.name)} | ${test.verdict}${test.isSuccess && test.verdict === "flaky" ? " (quarantined)" : ""} | ${roundsText(test)} | ${test.seconds.toFixed(1)} s | ${cell(test.message)} |`,
    ),
    "",
  ];
  for (const { name, cases, failureBundle } of tests) {
    const bad = cases.filter(({ outcome }) => outcome === "failed" || outcome === "error");
    if (bad.length === 0) continue;
    lines.push(`### ${cell(name)}`, "", ...bad.slice(0, maxCases).flatMap(caseLines));
    if (bad.length > maxCases) lines.push(`- ${bad.length - maxCases} more`);
    if (failureBundle !== undefined) lines.push(`- Objects, events and logs: \`keelson test report ${name} --bundles DIR\``);
    lines.push("");
  }
  return lines.join("\n");
}

/** Rounds that passed, and the pass rate of a flaky test, as text. */
export function roundsText({ rounds }: TestReport): string {
  if (rounds === undefined) return "";
  const { completed, failed, passRate } = rounds;
  const rate = passRate === undefined ? "" : ` (${passRate.lowPercent} to ${passRate.highPercent} %)`;
  return `${completed - failed}/${completed}${completed > 1 ? rate : ""}`;
}

function caseLines({ name, outcome, message = "", details = "" }: CaseReport): readonly string[] {
  const line = `- **${cell(name)}** ${outcome}: ${cell(message)}`;
  if (details === "") return [line];
  // A fence longer than any in the text.
  const longest = Math.max(2, ...[...details.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return [
    line,
    "",
    `  ${fence}`,
    ...printable(details)
      .split("\n")
      .map((each) => `  ${each}`),
    `  ${fence}`,
    "",
  ];
}

/** Escapes text for a table cell. */
const cell = (text: string): string =>
  printable(text)
    .replaceAll(/[\\|<>*_`[\]]/g, (mark) => `\\${mark}`)
    .replaceAll(/\r?\n/g, " ");
