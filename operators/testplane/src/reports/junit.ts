import { formatSeconds } from "./format-seconds.ts";
import type { CaseReport, TestReport } from "./report.ts";

/** Renders a JUnit report with one suite per test. */
export function junitReport(tests: readonly TestReport[]): string {
  const all = tests.flatMap(({ cases }) => cases);
  const total = tests.reduce((sum, each) => sum + each.seconds, 0);
  const lines = [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="keelson testplane" ${counts(all)} time="${formatSeconds(total)}">`,
  ];
  for (const { name, cases, seconds, failureBundle } of tests) {
    lines.push(`  <testsuite name="${escape(name)}" ${counts(cases)} time="${formatSeconds(seconds)}">`);
    if (failureBundle !== undefined) {
      const property = `<property name="failureBundle" value="${escape(failureBundle)}"/>`;
      lines.push(`    <properties>${property}</properties>`);
    }
    for (const each of cases) lines.push(...caseLines(name, each));
    lines.push("  </testsuite>");
  }
  lines.push("</testsuites>", "");
  return lines.join("\n");
}

function caseLines(suite: string, { name, seconds, outcome, message = "", details = "" }: CaseReport): readonly string[] {
  const open = `    <testcase classname="${escape(suite)}" name="${escape(name)}" time="${formatSeconds(seconds)}"`;
  if (outcome === "passed") return [`${open}/>`];
  if (outcome === "skipped") {
    const skipped = message === "" ? "<skipped/>" : `<skipped message="${escape(message)}"/>`;
    return [`${open}>`, `      ${skipped}`, "    </testcase>"];
  }
  const tag = outcome === "error" ? "error" : "failure";
  return [`${open}>`, `      <${tag} message="${escape(message)}">${escape(details || message)}</${tag}>`, "    </testcase>"];
}

function counts(cases: readonly CaseReport[]): string {
  const count = (outcome: CaseReport["outcome"]): number => cases.filter((each) => each.outcome === outcome).length;
  return `tests="${cases.length}" failures="${count("failed")}" errors="${count("error")}" skipped="${count("skipped")}"`;
}

/** Escapes text for XML 1.0 and replaces characters that XML cannot represent. */
function escape(text: string): string {
  return (
    text
      .replaceAll(/[&<>"']/g, (mark) => `&#${mark.charCodeAt(0)};`)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: XML cannot represent these characters.
      .replaceAll(
        /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
        "\ufffd",
      )
      .replaceAll(/[\n\r\t]/g, (mark) => `&#${mark.charCodeAt(0)};`)
  );
}
