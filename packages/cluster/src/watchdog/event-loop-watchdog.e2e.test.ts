import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

const module = fileURLToPath(new URL("../../dist/watchdog/event-loop-watchdog.js", import.meta.url));

/** A program that starts the watchdog and then `blocks`. */
const programOf = (blocks: string, thresholdMs: number): readonly string[] => [
  "--input-type=module",
  "--eval",
  `
    import { fstatSync } from "node:fs";
    const { startEventLoopWatchdog } = await import(${JSON.stringify(module)});
    const watchdog = startEventLoopWatchdog({ thresholdMs: ${thresholdMs}, name: "test" });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const isReported = () => fstatSync(2).size > 0;
    const spin = (ms, until = performance.now() + ms) => { while (performance.now() < until); };
    ${blocks}
    await watchdog.stop();
  `,
];

/** Runs a program that blocks until the watchdog has reported it. Resolves to the report. */
async function reportOf(blocks: string): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "keelson-watchdog-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "stderr");
  const stderr = openSync(file, "w");
  await once(spawn(process.execPath, programOf(blocks, 500), { stdio: ["ignore", "ignore", stderr], timeout: 90_000 }), "exit");
  closeSync(stderr);
  return readFileSync(file, "utf8");
}

test("names the function that blocks the event loop synchronously", async () => {
  const report = await reportOf("function grind() { while (!isReported()) spin(100); } grind();");
  expect(report).toMatch(/^test: event loop blocked for \d+ ms in (?:.* < )?grind \(/);
});

test("names the function whose promises starve the event loop", async () => {
  const report = await reportOf("async function circle() { while (!isReported()) { spin(1); await null; } } await circle();");
  expect(report).toMatch(/^test: event loop blocked for \d+ ms in .*circle \(/);
});

test("is silent while the event loop turns", async () => {
  const words = programOf("await new Promise((resolve) => setTimeout(resolve, 600));", 5_000);
  expect((await promisify(execFile)(process.execPath, words)).stderr).toBe("");
});
