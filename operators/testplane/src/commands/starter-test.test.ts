import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import type { CommandContext, CommandDefinition, FlagValues } from "@keelson/operator";
import { Compile } from "typebox/schema";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { IntegrationTest } from "../api/integration-test.ts";
import { startTestplaneEnvironment } from "../testing/testplane-environment.ts";
import { findMistakes } from "./find-mistakes.ts";
import { initCommand } from "./init.ts";
import { testSchema } from "./json-schema.ts";
import { schemaCommand } from "./schema.ts";
import { starterTest } from "./starter-test.ts";
import { parseTests } from "./test-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "testplane-init-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function run(command: CommandDefinition, args: readonly string[] = [], flags: FlagValues = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const context: CommandContext = {
    ...{ args, flags, stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal },
    client: () => Promise.reject(new Error("needs no cluster")),
  };
  const status = await command.run(context);
  return { status, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
}

describe("keelson test init", () => {
  it("writes a test, and overwrites a file only if told to", async () => {
    const file = join(folder, "new.yaml");
    expect(await run(initCommand, [file])).toEqual({
      status: 0,
      stdout: `${file} written; run it: keelson test run ${file}\n`,
      stderr: "",
    });
    expect(readFileSync(file, "utf8")).toBe(starterTest);
    expect(await run(initCommand, [file])).toMatchObject({
      status: 2,
      stderr: `${file}: already exists; overwrite it with --force\n`,
    });
    expect(await run(initCommand, [file], { force: true })).toMatchObject({ status: 0 });
  });

  it("writes a test that is valid and passes", async () => {
    expect(findMistakes({ source: "test.yaml", content: starterTest }, "default")).toEqual({ mistakes: [], tests: 1 });
    await using environment = await startTestplaneEnvironment();
    for (const { name, spec } of parseTests(starterTest, "test.yaml").tests)
      await environment.client.create(IntegrationTest, { metadata: { name, namespace: "default" }, spec: spec as never });
    const done = await environment.until(IntegrationTest, "first-test", (each) => each?.status?.completionTime !== undefined);
    expect(done?.status).toMatchObject({ verdict: "Passed" });
  });
});

describe("keelson test schema", () => {
  const examples = new URL("../../../../examples/testplane/", import.meta.url);
  const schema = Compile(testSchema() as never);
  const testsOf = (text: string): readonly Record<string, unknown>[] =>
    parseAllDocuments(text)
      .map((document) => document.toJS() as Record<string, unknown>)
      .filter(({ apiVersion }) => apiVersion === "infra.testplane.io/v1alpha1");

  it("prints a schema that accepts the starter test and every example", async () => {
    const { status, stdout } = await run(schemaCommand);
    expect([status, JSON.parse(stdout)]).toEqual([0, testSchema()]);
    const files = readdirSync(examples).filter((name) => name.endsWith(".yaml"));
    const texts = [starterTest, ...files.map((name) => readFileSync(new URL(name, examples), "utf8"))];
    for (const test of texts.flatMap(testsOf)) expect(schema.Errors(test), JSON.stringify(test)).toEqual([true, []]);
  });

  it.each([
    ["an unknown field", (text: string) => text.replace("expectError:", "expectErrors:")],
    ["a wrong type", (text: string) => text.replace("timeoutSeconds: 60", "timeoutSeconds: soon")],
    ["an unknown kind", (text: string) => text.replace("kind: IntegrationTest", "kind: IntegrationTests")],
    ["a missing field", (text: string) => text.replace("    - name: change\n      timeoutSeconds", "    - timeoutSeconds")],
  ])("rejects %s", (_, change) => {
    const [test] = testsOf(change(starterTest));
    expect(test).not.toEqual(testsOf(starterTest)[0]);
    expect(schema.Check(test)).toBe(false);
  });
});
