import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { isNotFound } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { garbageCollection } from "@keelson/cluster/testing";
import { silentLogger } from "@keelson/controller";
import type { CommandContext, CommandDefinition, FlagValues } from "@keelson/operator";
import { afterEach, beforeEach, expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { startTestplaneEnvironment, type TestplaneEnvironment } from "../testing/testplane-environment.ts";
import { rerunCommand } from "./rerun.ts";
import { createRunCommand } from "./run.ts";

let environment: TestplaneEnvironment;
let folder: string;
beforeEach(async () => {
  environment = await startTestplaneEnvironment(undefined, [garbageCollection]);
  folder = mkdtempSync(join(tmpdir(), "testplane-run-"));
});
afterEach(async () => {
  await environment[Symbol.asyncDispose]();
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

async function run(
  text: string,
  flags: FlagValues = {},
  signal = new AbortController().signal,
  args: readonly string[] = [join(folder, "test.yaml")],
  command?: CommandDefinition,
  client?: Client,
) {
  writeFileSync(join(folder, "test.yaml"), text);
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const context: CommandContext = {
    args,
    flags: { namespace: "default", ...flags },
    stdout,
    stderr,
    clock: systemClock,
    log: silentLogger,
    signal,
    client: () =>
      Promise.resolve(client ?? createClient({ transport: environment.environment.transport(), fieldManager: "test" })),
  };
  const status = await (command ?? createRunCommand(Readable.from([text]))).run(context);
  return { status, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
}

it("prints the progress of a test and exits with 0 when it succeeded", async () => {
  const { status, stdout } = await run(manifest("<on>"));
  expect(status).toBe(0);
  expect(stdout).toMatch(/shown\tstarted\n[^]*make: succeeded in [\d.]+ s\nshown\tSucceeded: all steps succeeded in/);
});

it("exits with 1 when a test failed, and reports it", async () => {
  const junit = join(folder, "report.xml");
  const { status } = await run(manifest("off"), { junit });
  expect(status).toBe(1);
  const report = readFileSync(junit, "utf8");
  expect(report).toContain('<testsuite name="shown" tests="1" failures="1" errors="0" skipped="0"');
  expect(report).toContain("FieldEquals: data.state is &#60;on&#62;, not off");
});

it("starts no test after a failed one with --fail-fast, one at a time with --parallel 1", async () => {
  const named = (name: string, value: string): string => manifest(value).replaceAll("shown", name).replaceAll("made", name);
  const text = [named("good", "<on>"), named("bad", "off"), named("late", "<on>")].join("---");
  const { status, stdout } = await run(text, { "fail-fast": true, parallel: "1" });
  expect(status).toBe(1);
  expect(stdout.match(/^\w+\tstarted$/gm)).toEqual(["good\tstarted", "bad\tstarted"]);
  expect(stdout.indexOf("bad\tstarted")).toBeGreaterThan(stdout.indexOf("good\tSucceeded"));
  expect(stdout).toContain("late\tnot started: another test failed\n");
  await expect(environment.client.get(IntegrationTest, { namespace: "default", name: "late" })).rejects.toSatisfy(isNotFound);
});

it("runs the failed tests of the cluster again", async () => {
  const good = manifest("<on>").replaceAll("shown", "good").replaceAll("made", "good");
  const { status } = await run(`${manifest("off")}---${good}`);
  expect(status).toBe(1);
  const again = await run("", { failed: true }, undefined, [], rerunCommand);
  expect(again.status).toBe(1);
  expect(again.stdout).toContain("shown\tstarted\n");
  expect(again.stdout).not.toContain("good");
  const all = await run("", {}, undefined, ["good"], rerunCommand);
  expect([all.status, all.stdout]).toEqual([0, expect.stringContaining("good\tSucceeded")]);
  await expect(run("", {}, undefined, [], rerunCommand)).rejects.toThrow("rerun: name tests, or pass --failed");
});

it("runs one round of a test again, with the parameters of its scenario", async () => {
  const scenarios = `  parameters: [{name: state}]
  scenarios: [{name: first, values: {state: "<on>"}}, {name: second, values: {state: "off"}}]
`;
  const text = manifest("<on>")
    .replace('state: "<on>"', 'state: "${{ params.state }}"')
    .replace("spec:\n", `spec:\n${scenarios}`);
  expect((await run(text)).status).toBe(1);
  const rerun = (flags: FlagValues, ...names: string[]) => run("", flags, undefined, names, rerunCommand);
  expect((await rerun({ round: "1" }, "shown")).status).toBe(0);
  const test = await environment.client.get(IntegrationTest, { namespace: "default", name: "shown" });
  expect(test.status).toMatchObject({ verdict: "Passed", completedRounds: 1, roundHistory: [{ scenario: "first" }] });
  // The whole test is kept.
  await expect(rerun({ round: "3" }, "shown")).rejects.toThrow("--round: shown has 2 rounds");
  expect((await rerun({ round: "2" }, "shown")).status).toBe(1);
  expect((await rerun({}, "shown")).status).toBe(1);
  const whole = await environment.client.get(IntegrationTest, { namespace: "default", name: "shown" });
  expect(whole.status).toMatchObject({ completedRounds: 2 });
  expect(whole.metadata.annotations).toBeUndefined();
  await expect(rerun({ round: "1", failed: true })).rejects.toThrow("--round: name one test");
});

it("keeps a copy of a test that it deleted and could not create again", async () => {
  expect((await run(manifest("<on>"))).status).toBe(0);
  const client = createClient({ transport: environment.environment.transport(), fieldManager: "test" });
  const broken = Object.assign(client, { create: () => Promise.reject(new Error("connection refused")) });
  const { status, stderr } = await run("", {}, undefined, ["shown"], rerunCommand, broken);
  expect(status).toBe(2);
  const [, path = ""] = /shown: not started; .* kubectl create -f (\S+)\n/.exec(stderr) ?? [];
  const copy = JSON.parse(readFileSync(path, "utf8")) as { metadata: object; spec: { steps: object[] } };
  rmSync(dirname(path), { recursive: true });
  expect(copy).toMatchObject({ kind: "IntegrationTest", metadata: { name: "shown" }, spec: { steps: [{ name: "make" }] } });
  await environment.client.create(IntegrationTest, copy as never);
});

it("exits with 124 after the timeout and deletes running tests", async () => {
  const { status, stderr } = await run(manifest("off", 100), { timeout: "300ms" });
  expect([status, stderr]).toEqual([124, "not finished within 300ms\n"]);
  await expect(environment.client.get(IntegrationTest, { namespace: "default", name: "shown" })).rejects.toSatisfy(isNotFound);
});

it("exits with 130 when interrupted and deletes running tests", async () => {
  const interrupt = new AbortController();
  const running = run(manifest("off", 100), {}, interrupt.signal);
  await environment.until(IntegrationTest, "shown", (test) => test?.status?.phase === "Running");
  interrupt.abort();
  expect((await running).status).toBe(130);
  await expect(environment.client.get(IntegrationTest, { namespace: "default", name: "shown" })).rejects.toSatisfy(isNotFound);
});

it.each([
  ["invalid YAML", "a: [", /document 1/],
  [
    "no test",
    "apiVersion: v1\nkind: Pod\nmetadata: {name: x}",
    /contains no test; .*Pod of v1 is not a test: apply it with kubectl/,
  ],
  [
    "an unknown function",
    manifest("x").replace("FieldEquals", "FieldEqual"),
    /allOf\[0\]\.function: .*did you mean FieldEquals\?/,
  ],
  [
    "a test that the server rejects",
    manifest("x").replace("expectations", "expectation"),
    /unknown field "spec\.steps\[0\]\.expectation"/,
  ],
  ["two tests of the same name", `${manifest("x")}---${manifest("x")}`, /metadata\.name: must be unique/],
])("exits with 2 for a file with %s", async (_, text, message) => {
  const { status, stderr } = await run(text);
  expect(status).toBe(2);
  expect(stderr).toMatch(message);
});

const named = (name: string, value = "<on>") =>
  manifest(value).replaceAll("shown", name).replaceAll("name: made", `name: made-${name}`);

it("runs the tests of directories and of standard input, and ignores other objects", async () => {
  mkdirSync(join(folder, "more"));
  writeFileSync(join(folder, "more", "mixed.yaml"), `apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n---${named("second")}`);
  const { status, stdout, stderr } = await run(named("first"), {}, undefined, [folder]);
  expect(status).toBe(0);
  expect(stdout).toMatch(/first\tSucceeded/);
  expect(stdout).toMatch(/second\tSucceeded/);
  expect(stderr).toMatch(/mixed\.yaml, document 1: Pod of v1 is not a test; ignored/);
  expect(await run(named("third"), {}, undefined, ["-"])).toMatchObject({
    status: 0,
    stdout: expect.stringContaining("third"),
  });
});

it("runs more than ten tests without a warning, and writes the same results as JSON", async () => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning.message);
  process.on("warning", onWarning);
  const json = join(folder, "report.json");
  const names = Array.from({ length: 12 }, (_, index) => `t${index}`);
  const { status } = await run(names.map((name) => named(name, name === "t3" ? "off" : "<on>")).join("---"), { json });
  process.off("warning", onWarning);
  expect([status, warnings]).toEqual([1, []]);
  const { tests } = JSON.parse(readFileSync(json, "utf8")) as { tests: { name: string; verdict: string }[] };
  expect(tests.filter(({ verdict }) => verdict !== "passed").map(({ name }) => name)).toEqual(["t3"]);
});
