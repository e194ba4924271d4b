import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import type { CommandDefinition, FlagValues } from "@keelson/operator";
import { expect, it } from "vitest";
import { IntegrationTest } from "../api/integration-test.ts";
import { startTestplaneEnvironment } from "../testing/testplane-environment.ts";
import { listCommand, reportCommand } from "./report.ts";

it("lists and reports the tests of the cluster", async () => {
  await using environment = await startTestplaneEnvironment();
  const folder = mkdtempSync(join(tmpdir(), "testplane-report-"));
  const run = async (command: CommandDefinition, flags: FlagValues = {}, args: readonly string[] = []): Promise<string> => {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const client = { ...environment.client, close: () => Promise.resolve() };
    for (const name of ["get", "list"] as const)
      Object.assign(client, { [name]: environment.client[name].bind(environment.client) });
    const signal = new AbortController().signal;
    const services = { clock: systemClock, log: silentLogger, signal, client: () => Promise.resolve(client) };
    expect(await command.run({ args, flags: { namespace: "default", ...flags }, stdout, stderr, ...services })).toBe(0);
    return String(stdout.read() ?? "");
  };
  try {
    expect(await run(listCommand)).toMatch(/^No tests/);
    for (const [name, cel] of [
      ["good", "true"],
      ["bad", "false"],
    ] as const) {
      await environment.client.create(IntegrationTest, {
        metadata: { name, namespace: "default", labels: { is: name } },
        spec: { steps: [{ name: "look", timeoutSeconds: 1, expectations: { allOf: [{ cel }] } }] },
      });
      await environment.until(IntegrationTest, name, (test) => test?.status?.completionTime !== undefined);
    }
    expect(await run(listCommand, { "all-namespaces": true })).toMatch(
      /default +bad +IntegrationTest +Failed +timeout[^]*good +IntegrationTest +Succeeded +passed/,
    );
    expect(await run(listCommand, { output: "name", selector: "is=good" })).toBe("integrationtest.infra.testplane.io/good\n");
    const names = "jsonpath={range .items[*]}{.metadata.name}={.status.phase} {end}";
    expect(await run(listCommand, { output: names })).toBe("bad=Failed good=Succeeded ");
    expect(await run(reportCommand)).toContain("## 1 of 2 tests succeeded");
    expect(await run(reportCommand, { selector: "is=good" })).toContain("## 1 of 1 tests succeeded");
    expect(await run(reportCommand, {}, ["bad"])).toContain("## 0 of 1 tests succeeded");
    await expect(run(reportCommand, {}, ["nothing"])).rejects.toThrow('test "nothing" not found');
    const junit = join(folder, "report.xml");
    expect(await run(reportCommand, { junit })).toBe("");
    expect(readFileSync(junit, "utf8")).toContain('tests="2" failures="1"');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
