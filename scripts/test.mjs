/*
 * `npm test`: installs, builds, checks and runs every test on this Node.js, then the tests that depend on Node.js itself on Node.js 24.
 * The last line is `N passed, N failed`. A process that outlives the tests counts as a failure. With CI=true, so does a skipped test.
 * `node scripts/test.mjs fast` or `e2e` runs one of the two projects without the checks; further arguments select test files. `helm`
 * compares the chart with Helm (`$HELM`), which must be installed.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { check } from "./check.mjs";
import { remainingProcesses } from "./remaining-processes.mjs";
import { build, fail, install, requireNode, root, run } from "./steps.mjs";
import { installSystemPrograms } from "./system-programs.mjs";

/** Tests of code that relies on Node.js modules, whose behavior differs between versions. The rest is pure TypeScript. */
const nodeDependentTests = [
  "packages/client",
  "packages/apiserver/src/http",
  "packages/apiserver/src/storage",
  "packages/apiserver/src/auth",
  "packages/controller/src/informer",
  "packages/controller/src/manager",
  "packages/controller/src/probes",
  "packages/execution",
  "operators/robots/src/broker",
  "operators/robots/src/agent",
  "packages/middleware-agent",
  "operators/middleware/src/agent",
  "operators/sandboxes/src",
  "apps/cli",
];

const [project, ...selection] = process.argv.slice(2);
if (project !== undefined && !["fast", "e2e", "helm"].includes(project)) {
  fail(`unknown project ${project}: must be fast, e2e or helm`);
}

requireNode();
const isCi = process.env.CI === "true";
const missing = project === "fast" || project === "helm" ? [] : installSystemPrograms("tests");
for (const entry of missing) {
  process.stdout.write(
    `skipped: ${entry.why}: no usable ${entry.program} found. Install it with: apt-get install ${entry.packages.join(" ")}\n`,
  );
}
if (missing.length > 0 && isCi) fail("0 passed, 1 failed");

/** Holds the temporary files of all tests, which identify the processes that tests start. A short name, as paths of sockets are limited. */
const temporary = mkdtempSync(join(tmpdir(), "kt-"));
// Some tests run programs as other users.
chmodSync(temporary, 0o1777);
const total = { passed: 0, failed: 0, skipped: 0 };
/** One line per failed test, printed at the end of the output. */
const failures = [];

// Vitest colours its dots wherever CI is set, which makes the log ten times longer.
if (!process.stdout.isTTY) process.env.NO_COLOR ??= "1";
process.env.EXCLUDED_TESTS = missing.flatMap((entry) => entry.tests).join(";");
if (project === undefined) {
  check();
  install(join(root, "tools/node24"), "install Node.js 24");
  runTests(`Fast tests on Node.js ${process.versions.node}`, process.execPath, "fast");
  runTests(`End-to-end tests on Node.js ${process.versions.node}`, process.execPath, "e2e");
  const node24 = join(root, "tools/node24/node_modules/node/bin/node");
  runTests("Tests that depend on Node.js, on Node.js 24", node24, "fast", nodeDependentTests);
} else {
  install();
  build();
  runTests(`Tests on Node.js ${process.versions.node}`, process.execPath, project, selection);
}
await endRemainingProcesses();
removeTemporaryFiles();

if (total.skipped > 0) {
  process.stdout.write(`${total.skipped} skipped\n`);
  if (isCi) total.failed += total.skipped;
}
for (const line of failures) process.stdout.write(`${line}\n`);
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

/** Runs a Vitest project on one Node.js and adds up its report. A crash without a report is a failure. */
function runTests(title, node, name, files = []) {
  process.stdout.write(`\n${title}\n`);
  const report = join(temporary, `${name}-${total.passed}.json`);
  const args = [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--project",
    name,
    ...files,
    `--reporter=${join(root, "scripts/test-reporter.mjs")}`,
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  const status = run(node, args, { env: { ...process.env, TMPDIR: temporary, TEST_MODULE_CACHE: join(temporary, "modules") } });
  let counts;
  try {
    counts = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    counts = { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0 };
  }
  total.passed += counts.numPassedTests;
  total.failed += counts.numFailedTests;
  total.skipped += counts.numPendingTests + (counts.numTodoTests ?? 0);
  const before = failures.length;
  noteFailures(title, counts);
  if (status !== 0 && failures.length === before) {
    total.failed++;
    failures.push(`failed: ${title}: Vitest exited with status ${status}; see its output above`);
  }
}

/** Records the failed tests of a report, and files that failed outside a test. */
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
      total.failed++;
      failures.push(`failed: ${title}: ${path}: ${file.message?.split("\n", 1)[0] ?? "no message"}`);
    }
  }
}

/** Kills the processes that tests left running, and records each as a failure. */
async function endRemainingProcesses() {
  for (const { pid, command } of await remainingProcesses(temporary)) {
    total.failed++;
    failures.push(`failed: process ${pid} outlived the tests: ${command}`);
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // The process has exited.
    }
  }
}

/** Removes the tests' files. A mount that a test left behind prevents that and is a failure. */
function removeTemporaryFiles() {
  try {
    rmSync(temporary, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    total.failed++;
    failures.push(`failed: the files of the tests could not be removed: ${error.message}`);
  }
}
