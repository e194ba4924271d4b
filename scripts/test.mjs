/*
 * `npm test`: installs, builds, checks and runs every test on this Node.js, and the tests that depend on Node.js itself on Node.js 24.
 * End-to-end tests mostly wait for processes, so the checks and the other tests run beside them. The last line is `N passed, N failed`. A process that outlives the tests counts as a failure. With CI=true, so does a skipped test.
 * `node scripts/test.mjs fast` or `e2e` runs one of the two projects without the checks; further arguments select test files. `helm`
 * compares the chart with Helm (`$HELM`), which must be installed.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout } from "node:timers/promises";
import { check, checkNames } from "./check.mjs";
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
const missing = project === "fast" || project === "helm" ? [] : await installSystemPrograms("tests");
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
// By this, an interruption finds every program that this run starts.
process.env.TEST_FOLDER = temporary;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => void interrupt(signal));
const total = { passed: 0, failed: 0, skipped: 0 };
/** One line per failed test, printed at the end of the output. */
const failures = [];
let reports = 0;

// Vitest colours its dots wherever CI is set, which makes the log ten times longer.
if (!process.stdout.isTTY) process.env.NO_COLOR ??= "1";
process.env.EXCLUDED_TESTS = missing.flatMap((entry) => entry.tests).join(";");
await install();
if (project === undefined) await install(join(root, "tools/node24"), "install Node.js 24");
await build();
// Every start of Node.js would parse these certificates, which takes longer than the rest of the start. Tests connect to this machine only.
delete process.env.NODE_EXTRA_CA_CERTS;
if (project === undefined) {
  await Promise.all([runEndToEndTests(), runChecksAndFastTests()]);
} else await runTests(`Tests on Node.js ${process.versions.node}`, process.execPath, project, selection);
await endRemainingProcesses();
removeTemporaryFiles();

if (total.skipped > 0) {
  process.stdout.write(`${total.skipped} skipped\n`);
  if (isCi) total.failed += total.skipped;
}
for (const line of failures) process.stdout.write(`${line}\n`);
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

async function runEndToEndTests() {
  // These tests write into the folders of packages, so what npm would pack is checked before.
  await runChecks(["packages"]);
  await runTests(`End-to-end tests on Node.js ${process.versions.node}`, process.execPath, "e2e");
}

async function runChecksAndFastTests() {
  await runChecks(checkNames.filter((name) => name !== "packages"));
  await runTests(`Fast tests on Node.js ${process.versions.node}`, process.execPath, "fast");
  const node24 = join(root, "tools/node24/node_modules/node/bin/node");
  await runTests("Tests that depend on Node.js, on Node.js 24", node24, "fast", nodeDependentTests);
}

/** Runs steps of `npm run check`. A step that fails is a failure like that of a test. */
async function runChecks(names) {
  const failure = await check(names);
  if (failure === undefined) return;
  process.stdout.write(`${failure}\n`);
  total.failed++;
  failures.push(`failed: npm run check: ${failure.slice(failure.lastIndexOf("\n") + 1)}`);
}

/** Runs a Vitest project on one Node.js and adds up its report. A crash without a report is a failure. */
async function runTests(title, node, name, files = []) {
  process.stdout.write(`${title} ...\n`);
  const report = join(temporary, `report-${reports++}.json`);
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
  const env = { ...process.env, TMPDIR: temporary, TEST_MODULE_CACHE: join(temporary, "modules"), TEST_TITLE: title };
  const status = await run(node, args, { env });
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

/** Ends all runs with everything that they have started, and exits. Programs that a process starts while it is killed are found in the next round. */
async function interrupt(signal) {
  process.stdout.write(`${signal}: ending the tests\n`);
  for (;;) {
    const found = await remainingProcesses(temporary, 0);
    if (found.length === 0) break;
    for (const { pid } of found) kill(pid);
    await setTimeout(50);
  }
  rmSync(temporary, { recursive: true, force: true, maxRetries: 3 });
  process.exit(128 + constants.signals[signal]);
}

/** Kills the processes that tests left running, and records each as a failure. */
async function endRemainingProcesses() {
  for (const { pid, command } of await remainingProcesses(temporary)) {
    total.failed++;
    failures.push(`failed: process ${pid} outlived the tests: ${command}`);
    kill(pid);
  }
}

function kill(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has exited.
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
