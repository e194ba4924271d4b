import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const module = fileURLToPath(new URL("../../dist/watchdog/event-loop-watchdog.js", import.meta.url));

/** Runs a program that starts the watchdog and then `blocks`, and returns what it wrote to standard error. */
async function run(blocks: string, thresholdMs = 200): Promise<string> {
  const code = `
    const { startEventLoopWatchdog } = await import(${JSON.stringify(module)});
    const watchdog = startEventLoopWatchdog({ thresholdMs: ${thresholdMs}, name: "test" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    ${blocks}
    await watchdog.stop();
  `;
  const { stderr } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code]);
  return stderr;
}

test("names the function that blocks the event loop synchronously", async () => {
  const stderr = await run("function grind(until) { while (performance.now() < until); } grind(performance.now() + 900);");
  expect(stderr).toMatch(/^test: event loop blocked for \d+ ms in grind \(/);
});

test("names the function whose promises starve the event loop", async () => {
  const stderr = await run(
    "async function circle(until) { while (performance.now() < until) await null; } await circle(performance.now() + 900);",
  );
  expect(stderr).toMatch(/^test: event loop blocked for \d+ ms in .*circle \(/);
});

test("is silent while the event loop turns", async () => {
  expect(await run("await new Promise((resolve) => setTimeout(resolve, 600));", 5_000)).toBe("");
});
