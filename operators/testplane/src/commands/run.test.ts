import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { isNotFound } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { type CommandContext, type FlagValues } from "@keelson/operator";
import { afterEach, beforeEach, expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { startTested, type Tested } from "../testing/tested.ts";
import { runCommand } from "./run.ts";

let tested: Tested;
let folder: string;
beforeEach(async () => {
  tested = await startTested();
  folder = mkdtempSync(join(tmpdir(), "testplane-run-"));
});
afterEach(async () => {
  await tested[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const manifest = (value: string, timeoutSeconds = 1): string => `
apiVersion: infra.testplane.io/v1alpha1
kind: IntegrationTest
metadata: {name: shown}
spec:
  steps:
  - name: make
    timeoutSeconds: ${timeoutSeconds}
    resource: {manifest: {apiVersion: v1, kind: ConfigMap, metadata: {name: made}, data: {state: "<on>"}}}
    expectations: {allOf: [{function: FieldEquals, params: {path: data.state, value: ${JSON.stringify(value)}}}]}
`;

async function run(text: string, flags: FlagValues = {}, signal = new AbortController().signal) {
  const file = join(folder, "test.yaml");
  writeFileSync(file, text);
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const context: CommandContext = {
    args: [file],
    flags: { namespace: "default", ...flags },
    stdout,
    stderr,
    clock: systemClock,
    log: silentLogger,
    signal,
    client: () => Promise.resolve(tested.client),
  };
  const status = await runCommand.run(context);
  return { status, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
}

it("tells how a test goes and answers 0 when it has succeeded", async () => {
  const { status, stdout } = await run(manifest("<on>"));
  expect(status).toBe(0);
  expect(stdout).toMatch(/shown\tbegins\n[^]*make: succeeded in [\d.]+ s\nshown\tSucceeded: all steps succeeded in/);
});

it("answers 1 when one has failed, and reports it", async () => {
  const junit = join(folder, "report.xml");
  const { status } = await run(manifest("off"), { junit });
  expect(status).toBe(1);
  const report = readFileSync(junit, "utf8");
  expect(report).toContain('<testsuite name="shown" tests="1" failures="1" errors="0" skipped="0"');
  expect(report).toContain("FieldEquals: data.state is &#60;on&#62;, not off");
});

it("answers 124 when its time is up, and deletes what still runs", async () => {
  const { status, stderr } = await run(manifest("off", 100), { timeout: "300ms" });
  expect([status, stderr]).toEqual([124, "not done within 300ms\n"]);
  await expect(tested.client.get(IntegrationTest, { namespace: "default", name: "shown" })).rejects.toSatisfy(isNotFound);
});

it("answers 130 when it is interrupted, and deletes what still runs", async () => {
  const interrupt = new AbortController();
  const running = run(manifest("off", 100), {}, interrupt.signal);
  await tested.until(IntegrationTest, "shown", (test) => test?.status?.phase === "Running");
  interrupt.abort();
  expect((await running).status).toBe(130);
  await expect(tested.client.get(IntegrationTest, { namespace: "default", name: "shown" })).rejects.toSatisfy(isNotFound);
});

it.each([
  ["no YAML", "a: [", /document 1/],
  ["no test", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}", /a Pod of v1 is no test; apply it first/],
  ["a test that the server refuses", manifest("x").replace("FieldEquals", "FieldEqual"), /allOf\[0\]/],
])("answers 2 for a file with %s", async (_, text, message) => {
  const { status, stderr } = await run(text);
  expect(status).toBe(2);
  expect(stderr).toMatch(message);
});
