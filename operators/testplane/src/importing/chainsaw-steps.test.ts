import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { IntegrationTestSpec } from "../api/integration-test.ts";
import { parseTests } from "../commands/test-files.ts";
import { convertTests } from "./convert-tests.ts";

/** Converts a test of chainsaw with these steps. */
async function convert(steps: string) {
  const folder = mkdtempSync(join(tmpdir(), "testplane-chainsaw-"));
  try {
    const head = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: { name: t }\nspec:\n  steps:\n";
    writeFileSync(join(folder, "chainsaw-test.yaml"), head + steps);
    const [converted] = await convertTests([folder], {});
    const [test] = parseTests(converted?.yaml ?? "", "t").tests;
    const spec = test?.spec as IntegrationTestSpec;
    const names = (list: readonly { readonly name: string }[] = []) => list.map(({ name }) => name);
    return {
      problems: converted?.problems,
      spec,
      steps: spec.steps.map(({ name, ...each }) => [name, names(each.catch), names(each.finally), names(each.cleanup)]),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const sleep = "sleep: { duration: 1ms }";

describe("the blocks of a step of chainsaw", () => {
  it("follow the first operation that fails, or the last one", async () => {
    const { steps, problems } = await convert(`
  - name: one
    try: [{ ${sleep} }, { ${sleep} }]
    catch: [{ ${sleep} }]
    finally: [{ ${sleep} }, { ${sleep} }]
    cleanup: [{ ${sleep} }]
  - try: [{ ${sleep} }]
    finally: [{ ${sleep} }]
`);
    expect(problems).toEqual([]);
    expect(steps).toEqual([
      ["one: sleep", ["sleep", "sleep (2)", "sleep (2) (2)"], [], ["sleep"]],
      ["one: sleep (2)", ["sleep"], ["sleep", "sleep (2)"], []],
      ["step 2: sleep", [], ["sleep"], []],
    ]);
  });

  it("run in the order of a step without other operations", async () => {
    const { steps, spec } = await convert(`
  - try: [{ describe: { apiVersion: v1, kind: Pod } }]
    finally: [{ ${sleep} }]
    cleanup: [{ ${sleep} }]
  - try: [{ ${sleep} }]
  - cleanup: [{ ${sleep} }]
`);
    expect(steps).toEqual([
      ["step 1: sleep", [], [], ["sleep"]],
      ["step 2: sleep", [], [], []],
    ]);
    expect(spec.finally?.map(({ name }) => name)).toEqual(["step 3: sleep"]);
  });

  it("are reported if they have expected errors or outputs", async () => {
    const box = "{ apiVersion: v1, kind: ConfigMap, metadata: { name: box } }";
    const { problems } = await convert(`
  - try: [{ ${sleep} }]
    catch: [{ create: { resource: ${box}, expect: [{ check: { ($error != null): true } }] } }]
    finally: [{ create: { resource: ${box}, outputs: [{ name: size, value: (metadata.name) }] } }]
`);
    expect(problems).toEqual([
      expect.stringContaining("expected errors of catch, finally and cleanup are not converted"),
      expect.stringContaining("outputs of catch, finally and cleanup are not converted"),
    ]);
  });
});
