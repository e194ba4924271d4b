import { readdirSync, readFileSync } from "node:fs";
import type { KubernetesObject, ResourceType } from "@keelson/api-machinery";
import { startTestEnvironment } from "@keelson/apiserver/testing";
import { createClient } from "@keelson/client";
import { type Logger, silentLogger } from "@keelson/controller";
import { clusterRulesOf, startOperator } from "@keelson/operator";
import { describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { LoadTest } from "./api/load-test.ts";
import { parseTests } from "./commands/test-files.ts";
import { validateIntegrationTest } from "./manifests/validate-integration-test.ts";
import { validateLoadTest } from "./manifests/validate-load-test.ts";
import { testplane } from "./operator.ts";
import { startTestplaneEnvironment } from "./testing/testplane-environment.ts";
import { watched } from "@keelson/client/testing";

const folder = new URL("../../../examples/testplane/", import.meta.url);
const examples = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
  // This file has the permissions of the tests only.
  (file) => file.endsWith(".yaml") && !file.endsWith("permissions.yaml"),
);
const read = (file: string) => parseTests(readFileSync(new URL(file, folder), "utf8"), file).tests;

describe("the examples", () => {
  it.each(examples)("%s is accepted with strict field validation and is valid", async (file) => {
    await using environment = await startTestplaneEnvironment();
    for (const test of read(file)) {
      const options = { fieldValidation: "Strict", dryRun: true } as const;
      const metadata = { name: test.name, namespace: "default" };
      if (test.kind === "IntegrationTest") {
        await environment.client.create(IntegrationTest, { metadata, spec: test.spec }, options);
        expect(validateIntegrationTest(test.spec, "default")).toEqual([]);
      } else {
        await environment.client.create(LoadTest, { metadata, spec: test.spec }, options);
        expect(validateLoadTest(test.spec, "default")).toEqual([]);
      }
    }
  });

  it("hello.yaml, parallel.yaml, assertions.yaml and steps.yaml succeed", async () => {
    await using environment = await startTestplaneEnvironment();
    for (const test of ["hello.yaml", "parallel.yaml", "assertions.yaml", "steps.yaml"].flatMap(read)) {
      if (test.kind !== "IntegrationTest") continue;
      const { delayBetweenRounds: _, ...repeat } = test.spec.repeat ?? { count: 1 };
      const metadata = { name: test.name, namespace: "default" };
      await environment.client.create(IntegrationTest, { metadata, spec: { ...test.spec, repeat } });
      const done = await environment.until(IntegrationTest, test.name, (each) => each?.status?.completionTime !== undefined);
      expect(done?.status).toMatchObject({
        phase: "Succeeded",
        verdict: "Passed",
        completedRounds: (repeat.count ?? 1) * (test.spec.scenarios?.length ?? 1),
      });
    }
  });
});

it("needs only its own permissions and those on the tested resources", async () => {
  await using environment = await startTestEnvironment({ crds: testplane.resources.map(({ crd }) => crd) });
  const client = createClient({ transport: environment.transport(), fieldManager: "test" });
  const rbac = (kind: string, plural: string): ResourceType => ({
    group: "rbac.authorization.k8s.io",
    version: "v1",
    kind,
    plural,
    scope: "Cluster",
  });
  const rules = [
    ...clusterRulesOf(testplane),
    { apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch", "create", "patch", "delete"] },
  ];
  const metadata = { name: "testplane" };
  await client.create(rbac("ClusterRole", "clusterroles"), { metadata, rules } as unknown as KubernetesObject);
  await client.create(rbac("ClusterRoleBinding", "clusterrolebindings"), {
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "testplane" },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "testplane" }],
  } as unknown as KubernetesObject);
  const refused: string[] = [];
  const log: Logger = {
    ...silentLogger,
    child: () => log,
    error: (fields, message) => refused.push(`${message} ${JSON.stringify(fields)}`),
  };
  const limited = createClient({
    transport: environment.transport({ username: "testplane", groups: ["system:authenticated"] }),
    fieldManager: "testplane",
  });
  await using _ = await startOperator({ operator: testplane, client: limited, dataDir: "/nonexistent", logger: log });
  const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "made" }, data: { a: "b" } };
  const make = (name: string, manifest: object) =>
    client.create(IntegrationTest, {
      metadata: { name, namespace: "default" },
      spec: { steps: [{ name: "make", timeoutSeconds: 5, resource: { manifest: manifest as Record<string, unknown> } }] },
    });
  await make("allowed", configMap);
  await make("forbidden", { ...configMap, kind: "Secret", data: {} });
  const ended = (name: string) => watched(client, IntegrationTest, name, (test) => test?.status?.completionTime !== undefined);
  expect((await ended("allowed"))?.status?.phase).toBe("Succeeded");
  expect((await ended("forbidden"))?.status?.steps?.[0]).toMatchObject({ state: "Failed", reason: "Forbidden" });
  expect(refused).toEqual([]);
});
