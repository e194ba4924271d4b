/*
 * Results of Vitest runs as plain data: what a run's reports say, and what a test's result is after its file has run twice.
 *
 * A result is `{ file, test, state, message }`. `file` is relative to the repository's root, and `undefined` if unknown; `state` is
 * `passed`, `failed` or `skipped`.
 */
import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import { root } from "./steps.mjs";

/** The test of a result that belongs to a file, but to none of its tests: a failed import or hook. */
const outsideOfTests = "outside its tests";

/** The name of a result that belongs to no file. */
const wholeRun = "whole run";

/**
 * Results of one run: those of Vitest's JSON report, one failure for each file that failed outside a test, and one for each unhandled
 * error. These belong to no file: an error surfaces while any file of its worker runs, so a second run of that file proves nothing. A run
 * that exited with an error and reports no failure is a failure, and so is one whose unhandled errors are unknown.
 */
export function readResults(report, unhandledErrors, status) {
  const results = (readJson(report)?.testResults ?? []).flatMap(resultsOfFile);
  const errors = readJson(unhandledErrors);
  for (const { file, message } of errors ?? []) {
    const when = file === undefined ? "" : `, while ${file} ran`;
    results.push(failure(undefined, wholeRun, `unhandled error${when}: ${message}`));
  }
  if (errors === undefined || (status !== 0 && failed(results).length === 0)) {
    results.push(failure(undefined, wholeRun, `Vitest exited with status ${status}; see its output above`));
  }
  return results;
}

/** The failed results. */
export function failed(results) {
  return results.filter(({ state }) => state === "failed");
}

/** The files that have failed results. */
export function failedFiles(results) {
  return [...new Set(failed(results).flatMap(({ file }) => file ?? []))];
}

/**
 * Results of a run whose failed files ran a second time. The second run decides, except that a test that failed and did not run again has
 * failed. `flaky` has the first failure of everything that passed the second time.
 */
export function mergeResults(first, second) {
  const ran = new Set(second.filter(({ state }) => state !== "skipped").map(({ file }) => file));
  const hasRunAgain = ({ file }) => file !== undefined && ran.has(file);
  const flaky = [];
  const standing = [];
  const replaced = new Set();
  for (const once of failed(first).filter(hasRunAgain)) {
    const again = second.filter(({ file, test }) => file === once.file && test === once.test);
    if (failed(again).length > 0) continue;
    if (once.test === outsideOfTests || again.some(({ state }) => state === "passed")) flaky.push(once);
    else {
      standing.push(once);
      for (const skipped of again) replaced.add(skipped);
    }
  }
  const others = first.filter((result) => !hasRunAgain(result));
  const decisive = second.filter((result) => (result.file === undefined || hasRunAgain(result)) && !replaced.has(result));
  return { results: [...others, ...decisive, ...standing], flaky };
}

/** One line that names a result: `FILE: TEST: MESSAGE`. */
export function describeResult({ file, test, message }) {
  return [...(file === undefined ? [] : [file]), test, message].join(": ");
}

function resultsOfFile({ name, status, message, assertionResults }) {
  const file = relative(root, name);
  const results = assertionResults.map((test) => ({
    file,
    test: test.fullName,
    state: test.status === "passed" || test.status === "failed" ? test.status : "skipped",
    message: firstLine(test.failureMessages[0]),
  }));
  const isOutside = status === "failed" && failed(results).length === 0;
  return isOutside ? [...results, failure(file, outsideOfTests, firstLine(message))] : results;
}

function failure(file, test, message) {
  return { file, test, state: "failed", message };
}

function firstLine(message) {
  return message?.split("\n", 1)[0] || "no message";
}

/** The content of a file that a run has written; `undefined` if the run crashed before or while it did. */
function readJson(file) {
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return undefined;
  }
}
