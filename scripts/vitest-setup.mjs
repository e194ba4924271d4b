/* Loads the TLS modules of Node.js before any test: loaded lazily in a worker that test files share, they can stay incomplete. */
import "node:https";
import "node:tls";
import { afterAll, beforeEach, expect } from "vitest";
import { processorSeconds } from "./processor-time.mjs";

// Setup files run once for each test file, before it is imported.
const startedAt = processorSeconds();
// oxlint-disable-next-line no-empty-pattern -- Vitest reads the names of fixtures from the pattern.
afterAll(({}, { meta }) => {
  meta.processorSeconds = processorSeconds() - startedAt;
});

// Without this, `toMatchObject({ message: /x/ })` accepts every message: a regular expression has no properties of its own.
expect.addEqualityTesters([
  (received, expected) => {
    if (!(expected instanceof RegExp) || received instanceof RegExp) return undefined;
    return typeof received === "string" && expected.test(received);
  },
]);

// `npm test` shows what a test writes, such as the logs of the servers that it starts, only if it fails.
if (process.env.TEST_TITLE !== undefined) {
  const written = (globalThis[Symbol.for("keelson.test-output")] ??= captureOutput());
  beforeEach(({ onTestFailed }) => {
    written.clear();
    onTestFailed(() => written.print());
  });
}

/** Keeps the end of what this process writes. Test files share the process. */
function captureOutput() {
  const maxCharacters = 100_000;
  const print = process.stderr.write.bind(process.stderr);
  let text = "";
  const capture = (chunk, encoding, done = encoding) => {
    text = (text + Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8").toString()).slice(-maxCharacters);
    if (typeof done === "function") process.nextTick(done);
    return true;
  };
  for (const stream of [process.stdout, process.stderr]) stream.write = capture;
  return { print: () => print(text), clear: () => (text = "") };
}
