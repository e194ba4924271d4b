/*
 * `npm test`: installs, builds, checks and runs every test on this Node.js, and the tests that depend on Node.js itself on Node.js 24.
 * `node scripts/test.mjs fast` or `e2e` runs one of the two projects without the checks; further arguments select test files. `helm`
 * compares the chart with Helm (`$HELM`), which must be installed.
 *
 * The last line is `N passed, N failed`. These count as failures too: a failed check, a process that outlives the tests, and with CI=true a
 * skipped test.
 *
 * End-to-end tests mostly wait for processes, so the checks and the other tests run alongside them. If few of their files fail, these run
 * again, alone. What passes then counts as passed, and is reported as flaky.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { check, checkNames } from "./check.mjs";
import { remainingProcesses } from "./remaining-processes.mjs";
import { build, fail, install, requireNode, root, run } from "./steps.mjs";
import { installSystemPrograms } from "./system-programs.mjs";
import { describeResult, failed, failedFiles, mergeResults, readResults } from "./test-report.mjs";

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

/** Tests in these folders that are pure TypeScript too, except for hashes and the API server inside the process. */
const nodeIndependentFiles = [
  "packages/middleware-agent/src/quorum/model.test.ts",
  "operators/sandboxes/src/{api,controllers,monitoring,registry}/**",
  "operators/sandboxes/src/manifests.test.ts",
  "apps/cli/src/install/{cluster,objects,template}/**",
];

/** If more end-to-end files fail, the cause is not the load of the machine, and none runs again. */
const maxRepeatedFiles = 5;

const [project, ...selection] = process.argv.slice(2);
if (project !== undefined && !["fast", "e2e", "helm"].includes(project)) {
  fail(`unknown project ${project}: must be fast, e2e or helm`);
}

requireNode();
const isCi = process.env.CI === "true";
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
/** One line per test that failed only once. */
const flakes = [];
let reports = 0;

// Vitest colours its dots wherever CI is set, which makes the log ten times longer.
if (!process.stdout.isTTY) process.env.NO_COLOR ??= "1";
// Mostly waits for the network and the disk, so both run at the same time.
const [missing] = await Promise.all([
  project === "fast" || project === "helm" ? [] : installSystemPrograms("tests"),
  prepare(),
]);
for (const entry of missing) {
  process.stdout.write(
    `skipped: ${entry.why}: no usable ${entry.program} found. Install it with: apt-get install ${entry.packages.join(" ")}\n`,
  );
}
if (missing.length > 0 && isCi) {
  removeTemporaryFiles();
  fail("0 passed, 1 failed");
}
process.env.EXCLUDED_TESTS = missing.flatMap((entry) => entry.tests).join(";");
// Every start of Node.js would parse these certificates, which takes longer than the rest of the start. Tests connect to this machine only.
delete process.env.NODE_EXTRA_CA_CERTS;
if (project === undefined) {
  const [endToEnd] = await Promise.all([runEndToEndTests(), runChecksAndFastTests()]);
  await finishEndToEndTests(endToEnd);
} else {
  const run = { title: `Tests on Node.js ${process.versions.node}`, node: process.execPath, project, selection };
  const results = await runTests(run);
  if (project === "e2e") await finishEndToEndTests({ title: run.title, results });
  else addResults(run.title, results);
}
await endRemainingProcesses();
removeTemporaryFiles();

if (total.skipped > 0) {
  process.stdout.write(`${total.skipped} skipped\n`);
  if (isCi) total.failed += total.skipped;
}
for (const line of [...failures, ...flakes]) process.stdout.write(`${line}\n`);
if (flakes.length > 0) process.stdout.write(`${flakes.length} flaky\n`);
process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

/** Installs packages and builds. The tests on Node.js 24 are the last to start. */
async function prepare() {
  await install();
  const node24 = project === undefined && install(join(root, "tools/node24"), "install Node.js 24");
  await Promise.all([node24, build()]);
}

async function runEndToEndTests() {
  // These tests write into the directories of packages, so what npm would pack is checked before.
  await runChecks(["packages"]);
  const title = `End-to-end tests on Node.js ${process.versions.node}`;
  return { title, results: await runTests({ title, node: process.execPath, project: "e2e" }) };
}

async function runChecksAndFastTests() {
  await runChecks(checkNames.filter((name) => name !== "packages"));
  const node24 = join(root, "tools/node24/node_modules/node/bin/node");
  for (const run of [
    { title: `Fast tests on Node.js ${process.versions.node}`, node: process.execPath },
    {
      title: "Tests that depend on Node.js, on Node.js 24",
      node: node24,
      selection: nodeDependentTests,
      excluded: nodeIndependentFiles,
    },
  ]) {
    addResults(run.title, await runTests({ ...run, project: "fast" }));
  }
}

/** Runs the files of failed end-to-end tests again, one at a time, if they are few, and adds up the results of both runs. */
async function finishEndToEndTests({ title, results: first }) {
  const files = failedFiles(first);
  if (files.length === 0 || files.length > maxRepeatedFiles) return addResults(title, first);
  // What the first run left behind is a failure, and would disturb the second.
  await endRemainingProcesses();
  const second = await runTests({
    title: `${title}, second run of ${files.length} failed ${files.length === 1 ? "file" : "files"}`,
    node: process.execPath,
    project: "e2e",
    // As absolute paths, because Vitest selects every file whose path contains an argument.
    selection: files.map((file) => join(root, file)),
    options: ["--no-file-parallelism"],
  });
  const { results, flaky } = mergeResults(first, second);
  addResults(title, results);
  flakes.push(...flaky.map((result) => `flaky: ${describeResult(result)}`));
}

/** Runs steps of `npm run check`. A step that fails is a failure like that of a test. */
async function runChecks(names) {
  const failure = await check(names);
  if (failure === undefined) return;
  process.stdout.write(`${failure}\n`);
  total.failed++;
  failures.push(`failed: npm run check: ${failure.slice(failure.lastIndexOf("\n") + 1)}`);
}

/** Runs a Vitest project on one Node.js. Resolves to its results. */
async function runTests({ title, node, project: name, selection: files = [], excluded = [], options = [] }) {
  process.stdout.write(`${title} ...\n`);
  const report = join(temporary, `report-${reports++}.json`);
  const unhandledErrors = `${report}.errors`;
  const args = [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--project",
    name,
    ...files,
    ...options,
    `--reporter=${join(root, "scripts/test-reporter.mjs")}`,
    "--reporter=json",
    `--outputFile.json=${report}`,
  ];
  const env = {
    ...process.env,
    TMPDIR: temporary,
    TEST_MODULE_CACHE: join(temporary, "modules"),
    TEST_TITLE: title,
    TEST_UNHANDLED_ERRORS: unhandledErrors,
    EXCLUDED_TESTS: [process.env.EXCLUDED_TESTS, ...excluded].join(";"),
  };
  const status = await run(node, args, { env });
  return readResults(report, unhandledErrors, status);
}

/** Adds a run's results to the totals. */
function addResults(title, results) {
  for (const { state } of results) total[state]++;
  failures.push(...failed(results).map((result) => `failed: ${title}: ${describeResult(result)}`));
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
