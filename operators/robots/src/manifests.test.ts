import { readFileSync } from "node:fs";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { Job } from "./api/job.ts";
import { robots } from "./operator.ts";

const original = `
metadata: {name: inspect, namespace: default}
spec:
  name: inspect
  type: batch
  priority: 50
  robotSelector: {env: production, region: us-west}
  taskGroups:
  - name: workers
    count: 1
    restartPolicy: {attempts: 2, delay: 5s, mode: fail}
    constraints: [{lTarget: "\${attr.kernel.name}", operand: "=", rTarget: linux}]
    tasks:
    - name: run
      driver: exec
      config: {execConfig: {command: /bin/sh, args: ["-c","echo hi"]}}
      resources: {cpu: 500m, memory: 64Mi}
      env: {LOG_LEVEL: info}
      killTimeout: 10s
      artifacts: [{getterSource: "https://h/x.tgz", relativeDest: local/x, getterMode: any}]
`;
const exampleNamed = (name: string): string =>
  readFileSync(new URL(`../../../examples/robots/${name}`, import.meta.url), "utf8");
const example = exampleNamed("hello.yaml");

it.each([
  ["K8s4r", original],
  ["our own example", example],
])("accepts the manifest of %s unchanged, without unknown fields", async (_, text) => {
  await using environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const manifest = parse(text) as Job;
  const job = await client.create(
    Job,
    { ...manifest, metadata: { namespace: "default", ...manifest.metadata } },
    { fieldValidation: "Strict" },
  );
  expect(job.spec).toMatchObject(manifest.spec);
  expect(job.spec.taskGroups[0]?.tasks[0]?.killTimeout).toBe(text === original ? "10s" : "5s");
});

it.each(["exclusive.yaml", "inspect.yaml", "patrol.yaml"])("accepts the example %s without unknown fields", async (name) => {
  await using environment = await startTestEnvironment({ crds: [Job.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  for (const document of parseAllDocuments(exampleNamed(name))) {
    const manifest = document.toJS() as Job;
    const job = await client.create(
      Job,
      { ...manifest, metadata: { namespace: "default", ...manifest.metadata } },
      { fieldValidation: "Strict" },
    );
    expect(job.spec).toMatchObject(manifest.spec);
  }
});

it.each([
  [
    "a group name that is not a DNS label",
    { taskGroups: [{ name: "A_b", count: 1, tasks: [] }] },
    /spec\.taskGroups\[0\]\.name/,
  ],
  ["a count of 0", { taskGroups: [{ name: "a", count: 0, tasks: [] }] }, /spec\.taskGroups\[0\]\.count/],
  ["no groups", { taskGroups: [] }, /spec\.taskGroups/],
  ["a priority of 101", { priority: 101 }, /spec\.priority/],
])("rejects %s and names the field", async (_, spec, message) => {
  await using environment = await startTestEnvironment({ crds: [Job.crd] });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const base = parse(original) as Job;
  await expect(client.create(Job, { ...base, spec: { ...base.spec, ...spec } })).rejects.toThrow(message);
});
