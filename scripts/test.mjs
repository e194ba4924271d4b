/*
 * `npm test`: installs, builds, checks, and runs every test: all of them on this Node.js, then the fast ones once more on
 * Node.js 24. The last line is `N passed, N failed`. With CI=true a test that was skipped counts as failed.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fail, install, requireNode, root, run } from "./steps.mjs";
import { installSystemPrograms } from "./system-programs.mjs";

requireNode();
const isCi = process.env.CI === "true";
const missing = installSystemPrograms("tests");
for (const entry of missing) {
  process.stdout.write(
    `skipped: ${entry.why}, because there is no ${entry.program} that will do. Get it with: apt-get install ${entry.packages.join(" ")}\n`,
  );
}
if (missing.length > 0 && isCi) fail("0 passed, 1 failed");

await import("./check.mjs");
install(join(root, "tools/node24"), "install Node.js 24");

const reports = mkdtempSync(join(tmpdir(), "keelson-test-"));
const total = { passed: 0, failed: 0, skipped: 0 };
/** A line for every test that failed, for the end of the output, where they are found at once. */
const failures = [];

/** Notes every failed test of a Vitest report, and files that failed outside any test. */
function noteFailures(title, report) {
  for (const file of report.testResults ?? []) {
    const failed = file.assertionResults.filter((test) => test.status === "failed");
    const path = relative(root, file.name);
    for (const test of failed) {
      failures.push(
        `failed: ${title}: ${path}: ${test.fullName}: ${test.failureMessages[0]?.split("\n", 1)[0] ?? "no message"}`,
      );
    }
    if (failed.length === 0 && file.status === "failed") {
      failures.push(`failed: ${title}: ${path}: ${file.message?.split("\n", 1)[0] ?? "no message"}`);
    }
  }
}

/** Runs Vitest under one Node.js and adds up what it reports; a crash without a report is a failure. */
function runTests(title, node, projects) {
  process.stdout.write(`\n${title}\n`);
  const report = join(reports, `${projects.join("-")}-${total.passed}.json`);
  const status = run(node, [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    ...projects.flatMap((project) => ["--project", project]),
    "--reporter=dot",
    "--reporter=json",
    `--outputFile.json=${report}`,
  ]);
  let counts;
  try {
    counts = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    counts = { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0 };
  }
  total.passed += counts.numPassedTests;
  total.failed += counts.numFailedTests;
  total.skipped += counts.numPendingTests + (counts.numTodoTests ?? 0);
  noteFailures(title, counts);
  if (status !== 0 && counts.numFailedTests === 0) {
    total.failed++;
    failures.push(`failed: ${title}: Vitest ended with status ${status}; its output above says why`);
  }
}

// Vitest colours its dots wherever CI is set, which is ten times the text in a log.
if (!process.stdout.isTTY) process.env.NO_COLOR ??= "1";
process.env.EXCLUDED_TESTS = missing.flatMap((entry) => entry.tests).join(";");
runTests(`All tests on Node.js ${process.versions.node}`, process.execPath, ["fast", "e2e"]);
runTests("Fast tests on Node.js 24", join(root, "tools/node24/node_modules/node/bin/node"), ["fast"]);
rmSync(reports, { recursive: true, force: true });

if (total.skipped > 0) {
  process.stdout.write(`${total.skipped} skipped\n`);
  if (isCi) total.failed += total.skipped;
}
for (const line of failures) process.stdout.write(`${line}\n`);
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
