import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../logger.ts";
import { operatorEntries } from "../operators.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "test-validate-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs `keelson test validate` without an API server. */
async function validate(path: string) {
  const operator = await operatorEntries.find(({ name }) => name === "testplane")?.load();
  const command = operator?.commands.find(({ name }) => name === "validate");
  if (command === undefined) throw new Error("command validate not found");
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = await command.run({
    args: [path],
    flags: { namespace: "default" },
    stdout,
    stderr,
    clock: systemClock,
    log: createLogger({ level: "error" }),
    signal: new AbortController().signal,
    client: () => Promise.reject(new Error("the command must not connect")),
  });
  return { status, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
}

describe("keelson test validate without an API server", () => {
  it("reports the wrong types and unknown fields of built-in kinds", async () => {
    const path = join(folder, "mistakes.yaml");
    const manifests = [
      "{ apiVersion: apps/v1, kind: Deployment, metadata: { name: a }, spec: { replicas: two } }",
      "{ apiVersion: v1, kind: ConfigMap, metadata: { name: a }, dta: {} }",
      "{ apiVersion: v1, kind: Pod, metadata: { name: a }, spec: { containers: [{ name: a, imge: b }] } }",
    ];
    const step = ["    - name: make", "      apply:", "        manifests:", ...manifests.map((each) => `          - ${each}`)];
    const head = [
      "apiVersion: infra.testplane.io/v1alpha1",
      "kind: IntegrationTest",
      "metadata: { name: a }",
      "spec:",
      "  steps:",
    ];
    writeFileSync(path, [...head, ...step].join("\n"));
    const { status, stderr } = await validate(path);
    const at = "spec.steps[0].apply.manifests";
    expect(stderr.replaceAll(`${path}:`, "").trim().split("\n")).toEqual([
      `9:85: ${at}[0].spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
      `10:71: ${at}[1].dta: unknown field; did you mean data?`,
      `11:97: ${at}[2].spec.containers[0].imge: unknown field; did you mean image?`,
    ]);
    expect(status).toBe(2);
  });

  it("accepts every example", async () => {
    const examples = fileURLToPath(new URL("../../../../examples/testplane", import.meta.url));
    expect(await validate(examples)).toMatchObject({ status: 0, stderr: "" });
  });
});
