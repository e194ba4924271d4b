import { type KubernetesObject, type ResourceType, isNotFound } from "@keelson/api-machinery";
import {
  ConfigMap,
  Deployment,
  Event,
  type EventObject,
  Namespace,
  Pod,
  Secret,
  ServiceAccount,
} from "@keelson/api-machinery/kinds";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IntegrationTest } from "./api/integration-test.ts";
import { startTestplaneEnvironment, type TestplaneEnvironment } from "./testing/testplane-environment.ts";

const namespace = "default";
let environment: TestplaneEnvironment;
beforeAll(async () => {
  environment = await startTestplaneEnvironment();
});
afterAll(() => environment[Symbol.asyncDispose]());

const configMap = (name: string, data: Record<string, string> = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});
const reference = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", name });

async function run(name: string, spec: IntegrationTest["spec"]) {
  await environment.client.create(IntegrationTest, { metadata: { name, namespace }, spec });
  return ended(name);
}

const ended = async (name: string) =>
  (await environment.until(IntegrationTest, name, (each) => each?.status?.completionTime !== undefined))?.status;

const rbac = (kind: string, plural: string): ResourceType => ({
  ...{ group: "rbac.authorization.k8s.io", version: "v1", kind, plural, scope: "Cluster" },
});

/** Grants permissions to the ServiceAccount `name` of the default namespace. */
async function grant(name: string, rules: readonly object[]): Promise<void> {
  const metadata = { name };
  await environment.client.create(rbac("ClusterRole", "clusterroles"), { metadata, rules } as unknown as KubernetesObject);
  await environment.client.create(rbac("ClusterRoleBinding", "clusterrolebindings"), {
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  } as unknown as KubernetesObject);
}

describe("the actions of steps", () => {
  it("apply, create, patch, scale and delete objects", async () => {
    const labels = { app: "web" };
    const web = {
      ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" } },
      spec: {
        replicas: 1,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "none" }] } },
      },
    };
    const status = await run("actions", {
      steps: [
        {
          name: "apply",
          apply: {
            manifests: [{ apiVersion: "v1", kind: "List", items: [configMap("one", { a: "1" }), configMap("two")] }, web],
          },
          expectations: { allOf: [{ cel: "object.data.a == '1'" }] },
        },
        { name: "create", create: { manifests: [configMap("three")] } },
        {
          name: "patch",
          patch: { object: reference("one"), body: { data: { b: "2" } } },
          expectations: { allOf: [{ matches: { data: { a: "1", b: "2" } } }] },
        },
        {
          name: "json patch",
          patch: { object: reference("one"), type: "json", body: [{ op: "replace", path: "/data/a", value: "9" }] },
          expectations: { allOf: [{ matches: { data: { a: "9" } } }] },
        },
        {
          name: "patch status",
          patch: {
            object: { apiVersion: "apps/v1", kind: "Deployment", name: "web" },
            subresource: "status",
            body: { status: { replicas: 7 } },
          },
          expectations: { allOf: [{ jsonPath: { path: ".status.replicas", value: 7 } }] },
        },
        {
          name: "scale",
          scale: { object: { apiVersion: "apps/v1", kind: "Deployment", name: "web" }, replicas: 3 },
          expectations: { allOf: [{ jsonPath: { path: ".spec.replicas", value: 3 } }] },
        },
        { name: "delete", delete: { object: reference("two"), propagationPolicy: "Background" } },
        { name: "sleep", sleep: "10ms" },
      ],
    });
    expect(status?.message).toBe("all steps succeeded");
    expect((await environment.client.get(Deployment, { namespace, name: "web" })).spec?.replicas).toBe(3);
    await expect(environment.client.get(ConfigMap, { namespace, name: "two" })).rejects.toSatisfy(isNotFound);
    const created = await environment.client.get(ConfigMap, { namespace, name: "three" });
    expect(created.metadata.ownerReferences).toMatchObject([{ kind: "IntegrationTest", name: "actions" }]);
  });

  it.each([
    ["matches the rejection", { code: 422, reason: "Invalid", message: "data\\[a b\\]" }, "Succeeded", undefined],
    ["has another code", { code: 403 }, "Failed", "UnexpectedError"],
    ["has another message", { message: "^nothing" }, "Failed", "UnexpectedError"],
  ])("are rejected as expected if expectError %s", async (what, expectError, phase, reason) => {
    const name = `rejects-${what.replaceAll(" ", "-")}`;
    const status = await run(name, {
      steps: [{ name: "bad", apply: { manifests: [configMap(name, { "a b": "1" })] }, expectError }],
    });
    expect(status?.phase).toBe(phase);
    expect(status?.steps?.[0]?.reason).toBe(reason);
  });

  it("fail if the API server accepts what it should reject", async () => {
    const status = await run("accepted", {
      steps: [{ name: "good", create: { manifests: [configMap("accepted")] }, expectError: { reason: "Invalid" } }],
    });
    expect(status).toMatchObject({ verdict: "Failed", steps: [{ reason: "ErrorExpected" }] });
  });

  it("are an error if the object to create exists", async () => {
    await environment.client.create(ConfigMap, { metadata: { name: "present", namespace } });
    const status = await run("creates-present", { steps: [{ name: "create", create: { manifests: [configMap("present")] } }] });
    expect(status).toMatchObject({ verdict: "Error", steps: [{ reason: "CreateFailed" }] });
  });
});

describe("a test with expressions", () => {
  it("reads parameters, bindings and outputs of earlier steps, in each of its scenarios", async () => {
    const status = await run("templates", {
      parameters: [
        { name: "size", type: "integer" },
        { name: "prefix", default: "tpl" },
      ],
      scenarios: [
        { name: "small", values: { size: 1 } },
        { name: "large", values: { size: 30 } },
      ],
      bindings: [{ name: "full", cel: "params.prefix + '-' + test.scenario" }],
      steps: [
        {
          name: "write",
          apply: {
            manifests: [configMap("${{ bindings.full }}", { size: "${{ string(params.size) }}", round: "r${{ test.round }}" })],
          },
          outputs: [{ name: "size", cel: "int(object.data.size) * 2" }],
        },
        {
          name: "read",
          resource: { selector: { apiVersion: "v1", kind: "ConfigMap", name: "${{ bindings.full }}" } },
          expectations: {
            allOf: [{ cel: "outputs.size == params.size * 2 && object.data.round == 'r' + string(test.round)" }],
          },
        },
      ],
    });
    expect(status).toMatchObject({
      phase: "Succeeded",
      completedRounds: 2,
      outputs: { size: 60 },
      roundHistory: [{ scenario: "small" }, { scenario: "large" }],
    });
  });

  it("is an error if an expression cannot be evaluated", async () => {
    const status = await run("bad-template", {
      steps: [{ name: "a", apply: { manifests: [configMap("${{ outputs.nothing }}")] } }],
    });
    expect(status).toMatchObject({ verdict: "Error", steps: [{ reason: "TemplateFailed" }] });
  });
});

describe("the order of steps", () => {
  const look = (name: string, cel: string) => ({
    name,
    timeoutSeconds: 1,
    expectations: { timeoutSeconds: 1, allOf: [{ cel }] },
  });

  it("follows needs, and independent steps continue after a failure", async () => {
    const status = await run("dag", {
      mode: "Parallel",
      steps: [
        look("a", "true"),
        { ...look("b", "false"), needs: ["a"] },
        { ...look("c", "true"), needs: ["a"] },
        { ...look("d", "true"), needs: ["b", "c"] },
      ],
    });
    expect(status?.steps?.map(({ state }) => state)).toEqual(["Succeeded", "Failed", "Succeeded", ""]);
  });

  it("runs catch, finally and the cleanup of started steps in reverse order after a failure", async () => {
    const write = (name: string) => ({ name, apply: { manifests: [configMap(`order-${name}`)] } });
    const remove = (name: string) => [{ name: "remove", delete: { object: reference(`order-${name}`) } }];
    const status = await run("order", {
      steps: [
        { ...write("first"), cleanup: remove("first") },
        { ...write("second"), cleanup: remove("second") },
        look("fails", "false"),
        { ...write("never"), cleanup: remove("never") },
      ],
      catch: [write("catch")],
      finally: [look("finally fails", "false"), write("finally")],
    });
    expect(status?.verdict).toBe("Timeout");
    const ran = (status?.steps ?? []).filter(({ startedAt }) => startedAt !== undefined);
    expect(ran.map(({ name, phase = "Main", state }) => `${phase} ${name} ${state ?? ""}`)).toEqual([
      "Main first Succeeded",
      "Main second Succeeded",
      "Main fails Failed",
      "Catch catch Succeeded",
      "Finally finally fails Failed",
      "Finally finally Succeeded",
      "Cleanup second: remove Succeeded",
      "Cleanup first: remove Succeeded",
    ]);
    await expect(environment.client.get(ConfigMap, { namespace, name: "order-first" })).rejects.toSatisfy(isNotFound);
  });

  it("is an error if all steps passed and a cleanup step failed", async () => {
    const status = await run("dirty", { steps: [look("a", "true")], finally: [look("b", "false")] });
    expect(status).toMatchObject({
      phase: "Failed",
      verdict: "Error",
      roundHistory: [{ failedStep: "b", stepCount: 1, succeededSteps: 1 }],
    });
  });

  it("repeats a failed step", async () => {
    const step = { ...look("flaps", "object.data.on == 'yes'"), apply: { manifests: [configMap("flaps", {})] }, retries: 20 };
    await environment.client.create(IntegrationTest, { metadata: { name: "retries", namespace }, spec: { steps: [step] } });
    await environment.until(IntegrationTest, "retries", (each) => (each?.status?.steps?.[0]?.attempt ?? 1) > 1);
    await environment.client.patch(ConfigMap, { namespace, name: "flaps" }, { type: "merge", body: { data: { on: "yes" } } });
    const status = await ended("retries");
    expect(status?.phase).toBe("Succeeded");
    expect(status?.steps?.[0]?.attempt).toBeGreaterThan(1);
  });
});

describe("a running test", () => {
  const waits = {
    name: "waits",
    timeoutSeconds: 500,
    apply: { manifests: [configMap("waits")] },
    expectations: { allOf: [{ cel: "has(object.data)" }] },
  };
  const cleaned = { ...waits, cleanup: [{ name: "remove", delete: { object: reference("waits") } }] };
  const change = (name: string, spec: object) =>
    environment.client.patch(IntegrationTest, { namespace, name }, { type: "merge", body: { spec } });

  it("is aborted after its cleanup", async () => {
    await environment.client.create(IntegrationTest, { metadata: { name: "aborts", namespace }, spec: { steps: [cleaned] } });
    await environment.until(IntegrationTest, "aborts", (each) => each?.status?.steps?.[0]?.stage === "Expect");
    await change("aborts", { abort: true });
    expect(await ended("aborts")).toMatchObject({
      phase: "Aborted",
      verdict: "Inconclusive",
      steps: [{ reason: "Stopped" }, { state: "Succeeded" }],
    });
    await expect(environment.client.get(ConfigMap, { namespace, name: "waits" })).rejects.toSatisfy(isNotFound);
  });

  it("is aborted after its program has ended, and cleans up then", async () => {
    const held = "example.com/held";
    const steps = [{ name: "runs", timeoutSeconds: 500, script: { content: "sleep 400" } }];
    const cleanup = { name: "last", apply: { manifests: [configMap("aborts-program-last")] } };
    await environment.client.create(IntegrationTest, {
      metadata: { name: "aborts-program", namespace },
      spec: { steps, finally: [cleanup] },
    });
    const running = await environment.until(
      IntegrationTest,
      "aborts-program",
      (each) => each?.status?.steps?.[0]?.stage === "Converge",
    );
    const name = running?.status?.steps?.[0]?.object?.name ?? "";
    // Stands for a program that takes a while to end.
    await environment.client.patch(Pod, { namespace, name }, { type: "merge", body: { metadata: { finalizers: [held] } } });
    await change("aborts-program", { abort: true });
    await environment.until(Pod, name, (pod) => pod?.metadata.deletionTimestamp !== undefined);
    const waiting = await environment.client.get(IntegrationTest, { namespace, name: "aborts-program" });
    expect(waiting.status).toMatchObject({ stopping: "Aborted", steps: [{ reason: "Stopped" }, { state: "" }] });
    await environment.client.patch(Pod, { namespace, name }, { type: "merge", body: { metadata: { finalizers: null } } });
    expect(await ended("aborts-program")).toMatchObject({ phase: "Aborted", steps: [{}, { state: "Succeeded" }] });
    await expect(environment.client.get(Pod, { namespace, name })).rejects.toSatisfy(isNotFound);
  });

  it("starts no step while it is paused", async () => {
    const steps = [{ name: "first", sleep: "1ms" }];
    await environment.client.create(IntegrationTest, {
      metadata: { name: "pauses", namespace },
      spec: { paused: true, steps },
    });
    const paused = await environment.until(
      IntegrationTest,
      "pauses",
      (each) => each?.status?.conditions?.some(({ type, status }) => type === "Paused" && status === "True") ?? false,
    );
    expect(paused?.status?.steps?.[0]?.state).toBe("");
    await change("pauses", { paused: false });
    expect(await ended("pauses")).toMatchObject({ phase: "Succeeded" });
  });

  it("is deleted after its time to live", async () => {
    await environment.client.create(IntegrationTest, {
      metadata: { name: "lives", namespace },
      spec: { ttlSecondsAfterFinished: 0, steps: [{ name: "first", sleep: "1ms" }] },
    });
    await environment.until(IntegrationTest, "lives", (each) => each === undefined);
  });
});

describe("the failure bundle", () => {
  const labels = { app: "broken" };
  const deployment = {
    ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "broken" } },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "none" }] } },
    },
  };
  const secret = { ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "key" } }, stringData: { key: "hush" } };

  it("has the objects and events of the failed round as they were before the cleanup", async () => {
    const involvedObject = { apiVersion: "apps/v1", kind: "Deployment", name: "broken", namespace };
    await environment.client.create(Event, {
      metadata: { name: "broken.1", namespace },
      ...{ involvedObject, type: "Warning", reason: "FailedCreate", message: "no image", count: 3 },
      lastTimestamp: "2100-01-01T00:00:00Z",
    } as unknown as EventObject);
    const status = await run("bundled", {
      steps: [
        { name: "secret", apply: { manifests: [secret] } },
        {
          name: "deploy",
          apply: { manifests: [deployment] },
          expectations: { timeoutSeconds: 1, allOf: [{ cel: "object.status.readyReplicas == 1" }] },
          cleanup: [{ name: "delete", delete: { object: { apiVersion: "apps/v1", kind: "Deployment", name: "broken" } } }],
        },
      ],
    });
    expect(status?.phase).toBe("Failed");
    expect(status?.failureBundle).toMatchObject({ configMap: "bundled-failure", round: 1 });
    const bundle = await environment.client.get(ConfigMap, { namespace, name: "bundled-failure" });
    expect(bundle.metadata.ownerReferences).toMatchObject([{ kind: "IntegrationTest", name: "bundled" }]);
    const { "summary.txt": summary, "objects.yaml": objects, "events.txt": events } = bundle.data ?? {};
    expect(summary).toMatch(/^round 1\nstep deploy: Timeout: /);
    expect(objects).toContain("kind: Deployment");
    expect(objects).toContain("manager: integrationtest-controller");
    expect(objects).toContain("[removed]");
    expect(objects).not.toContain(Buffer.from("hush").toString("base64"));
    expect(events).toContain("Warning  FailedCreate  Deployment/broken  no image (x3)");
  });

  it("is not collected for a test that passed", async () => {
    const status = await run("whole", { steps: [{ name: "a", apply: { manifests: [configMap("whole")] } }] });
    expect(status).toMatchObject({ phase: "Succeeded" });
    expect(status?.failureBundle).toBeUndefined();
  });
});

describe("objects outside the test's namespace", () => {
  const far = { ...configMap("far"), metadata: { name: "far", namespace: "kube-public" } };
  const everything = { apiGroups: ["*"], resources: ["*"], verbs: ["*"] };

  it("are refused without a ServiceAccount, and without its permissions", async () => {
    const home = { apiVersion: "v1", kind: "Namespace", metadata: { name: "refused" } };
    const alone = await run("alone", { steps: [{ name: "a", apply: { manifests: [home] } }] });
    expect(alone?.steps?.[0]).toMatchObject({
      reason: "Forbidden",
      message: expect.stringContaining("spec.serviceAccountName"),
    });
    const poor = await run("poor", { serviceAccountName: "poor", steps: [{ name: "a", apply: { manifests: [far] } }] });
    expect(poor?.steps?.[0]).toMatchObject({
      reason: "Forbidden",
      message: "ServiceAccount default/poor cannot patch configmaps in the namespace kube-public",
    });
  });

  it("are read with the permissions of the ServiceAccount; Secrets only with one", async () => {
    const type = { apiVersion: "v1", kind: "Secret" };
    await environment.client.create(Secret, {
      metadata: { name: "far", namespace: "kube-public" },
      stringData: { key: "far away" },
    });
    const selector = { ...type, namespace: "kube-public", name: "far" };
    const steal = { name: "a", resource: { selector }, outputs: [{ name: "stolen", cel: "object.data.key" }] };
    const alone = await run("reads-alone", { steps: [steal] });
    expect(alone?.steps?.[0]).toMatchObject({
      reason: "Forbidden",
      message: expect.stringContaining("set spec.serviceAccountName"),
    });
    const poor = await run("reads-poor", { serviceAccountName: "poor", steps: [steal] });
    expect(poor?.steps?.[0]).toMatchObject({
      reason: "Forbidden",
      message: "cannot read Secret far: ServiceAccount default/poor cannot get secrets in the namespace kube-public",
    });
    expect(JSON.stringify([alone, poor])).not.toContain(Buffer.from("far away").toString("base64"));
    await grant("reader", [{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }]);
    const allowed = await run("reads-reader", { serviceAccountName: "reader", steps: [steal] });
    expect(allowed?.phase).toBe("Succeeded");
  });

  it("are deleted with the test that created them", async () => {
    await grant("rich", [everything]);
    const status = await run("rich", { serviceAccountName: "rich", steps: [{ name: "a", apply: { manifests: [far] } }] });
    expect(status?.phase).toBe("Succeeded");
    await environment.client.get(ConfigMap, { namespace: "kube-public", name: "far" });
    await environment.client.delete(IntegrationTest, { namespace, name: "rich" });
    await environment.until(IntegrationTest, "rich", (each) => each === undefined);
    await expect(environment.client.get(ConfigMap, { namespace: "kube-public", name: "far" })).rejects.toSatisfy(isNotFound);
  });

  it("live in a namespace of the round, if the test is isolated", async () => {
    await grant("isolated", [everything]);
    await environment.client.create(IntegrationTest, {
      metadata: { name: "isolated", namespace },
      spec: {
        isolatedNamespace: true,
        serviceAccountName: "isolated",
        cleanupPolicy: "Never",
        steps: [{ name: "a", apply: { manifests: [configMap("inside", { in: "${{ test.namespace }}" })] } }],
      },
    });
    const status = await ended("isolated");
    expect(status?.phase).toBe("Succeeded");
    const home = status?.namespace ?? "";
    expect(home).toMatch(/^isolated-[0-9a-f]{5}-1$/);
    expect((await environment.client.get(ConfigMap, { namespace: home, name: "inside" })).data).toEqual({ in: home });
    await environment.client.delete(IntegrationTest, { namespace, name: "isolated" });
    await environment.until(IntegrationTest, "isolated", (each) => each === undefined);
    const left = await environment.client.get(Namespace, { name: home }).catch(() => undefined);
    expect(left === undefined || left.metadata.deletionTimestamp !== undefined).toBe(true);
  });

  it("are seen by the programs of an isolated test, whose Pods are in the namespace of their ServiceAccount", async () => {
    await grant("programs", [everything]);
    await environment.client.create(ServiceAccount, { metadata: { name: "programs", namespace } });
    await environment.client.create(IntegrationTest, {
      metadata: { name: "programs", namespace },
      spec: {
        isolatedNamespace: true,
        serviceAccountName: "programs",
        steps: [{ name: "a", timeoutSeconds: 77, script: { content: "true" } }],
      },
    });
    const test = await environment.until(IntegrationTest, "programs", (each) => each?.status?.steps?.[1]?.applied === true);
    const pod = await environment.client.get(Pod, { namespace, name: test?.status?.steps?.[1]?.object?.name ?? "" });
    expect(pod.spec).toMatchObject({ serviceAccountName: "programs", activeDeadlineSeconds: 77 });
    expect(pod.spec.containers[0]?.env).toContainEqual({ name: "NAMESPACE", value: test?.status?.namespace });
    expect(test?.status?.namespace).toMatch(/^programs-/);
    await environment.client.delete(IntegrationTest, { namespace, name: "programs" });
  });
});
