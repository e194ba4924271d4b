import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import { root } from "./steps.mjs";

/** Number of finished files between two progress lines. */
const filesPerLine = 50;

/** Number of files that the end of a run names, of the slowest and of those that use the processor most. */
const namedFiles = 5;

/** Several runs print at the same time. */
const runTitle = process.env.TEST_TITLE === undefined ? "" : `${process.env.TEST_TITLE}: `;

/**
 * Vitest reporter of `npm test`: prints each failure when it happens, so that a log that was cut off still names it, and a progress line
 * now and then instead of a dot for each of thousands of tests.
 */
// oxlint-disable-next-line import/no-default-export -- Vitest loads the default export of a reporter.
export default class TestReporter {
  #finished = 0;
  #failed = 0;
  /** Seconds by file. */
  #durations = new Map();
  /** Seconds of CPU time by file. */
  #processorTimes = new Map();
  #startedAt = performance.now();

  onTestCaseResult(test) {
    const { state, errors } = test.result();
    if (state !== "failed") return;
    this.#failed++;
    this.#print(`failed: ${relative(root, test.module.moduleId)}: ${test.fullName}`, errors);
  }

  onTestModuleEnd(module) {
    this.#finished++;
    this.#durations.set(relative(root, module.moduleId), module.diagnostic().duration / 1000);
    // Absent if the file could not be imported.
    this.#processorTimes.set(relative(root, module.moduleId), module.meta().processorSeconds ?? 0);
    // Errors outside a test, such as a failed import.
    if (module.errors().length > 0) this.#print(`failed: ${relative(root, module.moduleId)}`, module.errors());
    if (this.#finished % filesPerLine === 0) this.#printProgress();
  }

  onTestRunEnd(_modules, unhandledErrors) {
    writeUnhandledErrors(unhandledErrors);
    if (unhandledErrors.length > 0) this.#print("failed: unhandled errors", unhandledErrors);
    this.#printProgress();
    this.#printLargest("slowest", this.#durations);
    this.#printLargest(`${Math.round(this.#processorSeconds())} s of CPU time, most of it in`, this.#processorTimes);
  }

  /** Of all files, and of this process, which compiles them. */
  #processorSeconds() {
    const { user, system } = process.cpuUsage();
    return [...this.#processorTimes.values()].reduce((sum, seconds) => sum + seconds, (user + system) / 1e6);
  }

  #printLargest(title, secondsByFile) {
    const largest = [...secondsByFile].sort(([, a], [, b]) => b - a).slice(0, namedFiles);
    const list = largest.map(([file, seconds]) => `${file} ${Math.round(seconds)} s`).join(", ");
    process.stdout.write(`${runTitle}${title}: ${list}\n`);
  }

  #print(title, errors = []) {
    const details = errors.flatMap((error) => [
      messageOf(error),
      // Of an unhandled error: what ran when it occurred.
      ...[error.VITEST_TEST_PATH, error.VITEST_TEST_NAME].filter((text) => typeof text === "string"),
      ...(error.diff === undefined ? [] : [error.diff]),
      position(error),
    ]);
    process.stdout.write(
      `${runTitle}${[title, ...details.flatMap((text) => text.split("\n")).map((line) => `  ${line}`)].join("\n")}\n`,
    );
  }

  #printProgress() {
    const seconds = Math.round((performance.now() - this.#startedAt) / 1000);
    process.stdout.write(`${runTitle}${this.#finished} files, ${this.#failed} failed tests, ${seconds} s\n`);
  }
}

/** Vitest's JSON report lacks these. A file is the one that ran when the error surfaced, not necessarily its cause. */
function writeUnhandledErrors(errors) {
  if (process.env.TEST_UNHANDLED_ERRORS === undefined) return;
  const entries = errors.map(({ message, VITEST_TEST_PATH: path }) => ({
    ...(typeof path === "string" && { file: relative(root, path) }),
    message: messageOf({ message }).split("\n", 1)[0],
  }));
  writeFileSync(process.env.TEST_UNHANDLED_ERRORS, JSON.stringify(entries));
}

/** Anything can be thrown, also values without a message. */
function messageOf({ message }) {
  return String(message ?? "no message");
}

function position({ stacks = [], stack = "" }) {
  const [frame] = stacks;
  return frame === undefined ? stack : `at ${relative(root, frame.file)}:${frame.line}:${frame.column}`;
}
