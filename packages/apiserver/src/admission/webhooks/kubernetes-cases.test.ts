import type { JsonObject, KubernetesObject } from "@keelson/api-machinery";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type TestResponse, sendRequest, type RequestArguments } from "../../endpoints/testing/send-request.ts";
import type { Outcome } from "../../endpoints/outcome.ts";
import { valueAt } from "../../registry/object-fields.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { patchResponse, startTestWebhook, type TestWebhook } from "../../webhooks/testing/test-webhook.ts";

// The cases of Kubernetes' end-to-end suite (test/e2e/apimachinery/webhook.go), with the names of its tests.

let environment: TestEnvironment;
let webhook: TestWebhook;
beforeAll(async () => void (webhook = await startTestWebhook()));
afterAll(() => webhook.stop());
beforeEach(async () => void (environment = await startTestEnvironment()));
afterEach(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);
const configurations = "/apis/admissionregistration.k8s.io/v1";
const configMaps = "/api/v1/namespaces/default/configmaps";
const pods = "/api/v1/namespaces/default/pods";

interface Hook {
  readonly name?: string;
  readonly path: string;
  readonly resources: readonly string[];
  readonly groups?: readonly string[];
  readonly operations?: readonly string[];
  readonly [field: string]: unknown;
}

const hookOf = ({ name, path, resources, groups = [""], operations = ["CREATE", "UPDATE"], ...rest }: Hook): JsonObject =>
  ({
    name: name ?? `${path.slice(1)}.example.com`,
    clientConfig: { url: `${webhook.url}${path}`, caBundle: webhook.caBundle },
    rules: [{ operations, apiGroups: groups, apiVersions: ["*"], resources }],
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    ...rest,
  }) as unknown as JsonObject;

async function register(type: "Mutating" | "Validating", name: string, ...hooks: readonly Hook[]): Promise<TestResponse> {
  const body = {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${type}WebhookConfiguration`,
    metadata: { name },
    webhooks: hooks.map(hookOf),
  };
  return send("POST", `${configurations}/${type.toLowerCase()}webhookconfigurations`, body);
}

const configMap = (name: string, data: JsonObject = {}): KubernetesObject =>
  ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data }) as KubernetesObject;

const deny = (message: string): JsonObject => ({ allowed: false, status: { message } });

const widgets = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.example.com" },
  spec: {
    group: "example.com",
    scope: "Namespaced",
    names: { kind: "Widget", plural: "widgets" },
    versions: ["v1", "v2"].map((name) => ({
      name,
      served: true,
      storage: name === "v1",
      schema: {
        openAPIV3Schema: {
          type: "object",
          properties: {
            data: {
              type: "object",
              properties: { "mutation-start": { type: "string" }, "mutation-stage-1": { type: "string" } },
            },
            size: { type: "integer", default: 3 },
          },
        },
      },
    })),
  },
} as unknown as KubernetesObject;
const widgetPath = "/apis/example.com/v1/namespaces/default/widgets";
const widget = (name: string, data: JsonObject = {}, version = "v1"): JsonObject => ({
  apiVersion: `example.com/${version}`,
  kind: "Widget",
  metadata: { name },
  data,
});

/** Denies objects whose data has the given value, as the suite's webhook does. */
const denyValue = (request: Readonly<Record<string, unknown>>): JsonObject => {
  const values = [request["object"], request["operation"] === "DELETE" ? request["oldObject"] : undefined];
  const isUnwanted = values.some((object) => valueAt(object, "data", "webhook-e2e-test") === "webhook-disallow");
  return isUnwanted ? deny("the configmap contains unwanted key and value") : { allowed: true };
};
const unwanted = { "webhook-e2e-test": "webhook-disallow" };

describe("AdmissionWebhook", () => {
  it("should be able to deny pod and configmap creation", async () => {
    webhook.on("/pods", () => deny("the pod contains unwanted container name; the pod contains unwanted label"));
    webhook.on("/configmaps", denyValue);
    const selector = { matchExpressions: [{ key: "skip-webhook-admission", operator: "NotIn", values: ["yes"] }] };
    const created = await register(
      "Validating",
      "deny",
      { path: "/pods", resources: ["pods"], operations: ["CREATE"] },
      { path: "/configmaps", resources: ["configmaps"], namespaceSelector: selector },
      {
        path: "/fail-open",
        resources: ["configmaps"],
        failurePolicy: "Ignore",
        clientConfig: { url: "https://127.0.0.1:1/unreachable" },
      },
    );
    expect(created.code).toBe(201);
    const pod = { metadata: { name: "disallowed" }, spec: { containers: [{ name: "c", image: "i" }] } };
    expect(await send("POST", pods, pod)).toMatchObject({
      code: 400,
      body: {
        message:
          'admission webhook "pods.example.com" denied the request: the pod contains unwanted container name; the pod contains unwanted label',
      },
    });
    expect(await send("POST", configMaps, configMap("disallowed", unwanted))).toMatchObject({
      code: 400,
      body: {
        status: "Failure",
        message: 'admission webhook "configmaps.example.com" denied the request: the configmap contains unwanted key and value',
      },
    });
    expect((await send("POST", configMaps, configMap("allowed", { admit: "this" }))).code).toBe(201);
    expect((await send("PUT", `${configMaps}/allowed`, configMap("allowed", unwanted))).code).toBe(400);
    expect((await send("PATCH", `${configMaps}/allowed`, { data: unwanted }, "merge")).code).toBe(400);
    await send("POST", "/api/v1/namespaces", { metadata: { name: "exempted", labels: { "skip-webhook-admission": "yes" } } });
    const exempted = await send("POST", "/api/v1/namespaces/exempted/configmaps", configMap("disallowed", unwanted));
    expect(exempted.code).toBe(201);
  });

  it("should be able to deny attaching pod", async () => {
    webhook.on("/attach", () => deny("attaching to pod 'to-be-attached-pod' is not allowed"));
    await environment.stop();
    const attach = async (): Promise<Outcome> => ({ kind: "raw", status: 200, headers: {}, body: "attached" });
    environment = await startTestEnvironment({ subresources: { "/pods/attach": attach } });
    await register("Validating", "attach", { path: "/attach", resources: ["pods/attach"], operations: ["CONNECT"] });
    const answer = await send("POST", `${pods}/to-be-attached-pod/attach?stdin=true&container=c`);
    expect(answer.body["message"]).toBe(
      "admission webhook \"attach.example.com\" denied the request: attaching to pod 'to-be-attached-pod' is not allowed",
    );
    expect(webhook.requests("/attach").at(-1)).toMatchObject({
      operation: "CONNECT",
      kind: { group: "", version: "v1", kind: "PodAttachOptions" },
      subResource: "attach",
      name: "to-be-attached-pod",
      object: { kind: "PodAttachOptions", stdin: true, container: "c" },
      oldObject: null,
      options: null,
    });
  });

  it("should be able to deny custom resource creation, update and deletion", async () => {
    await environment.install([widgets]);
    webhook.on("/custom", (request) => {
      const object = request["operation"] === "DELETE" ? request["oldObject"] : request["object"];
      return valueAt(object, "data", "mutation-start") === "no"
        ? deny("the custom resource contains unwanted data")
        : { allowed: true };
    });
    await register("Validating", "custom", {
      path: "/custom",
      groups: ["example.com"],
      resources: ["widgets"],
      operations: ["CREATE", "UPDATE", "DELETE"],
    });
    const refused = 'admission webhook "custom.example.com" denied the request: the custom resource contains unwanted data';
    const create = await send("POST", widgetPath, widget("a", { "mutation-start": "no" }));
    expect(create.body["message"]).toBe(refused);
    expect((await send("POST", widgetPath, widget("a", { "mutation-start": "yes" }))).code).toBe(201);
    const patch = (value: string): Promise<TestResponse> =>
      send("PATCH", `${widgetPath}/a`, { data: { "mutation-start": value } }, "merge");
    expect((await patch("no")).body["message"]).toBe(refused);
    await send("DELETE", `${configurations}/validatingwebhookconfigurations/custom`);
    expect((await patch("no")).code).toBe(200);
    await register("Validating", "custom", {
      path: "/custom",
      groups: ["example.com"],
      resources: ["widgets"],
      operations: ["DELETE"],
    });
    expect((await send("DELETE", `${widgetPath}/a`)).body["message"]).toBe(refused);
    expect((await patch("fixed")).code).toBe(200);
    expect((await send("DELETE", `${widgetPath}/a`)).code).toBe(200);
  });

  it("should unconditionally reject operations on fail closed webhook", async () => {
    await send("POST", "/api/v1/namespaces", { metadata: { name: "closed", labels: { "fail-closed-webhook": "yes" } } });
    await register("Validating", "closed", {
      path: "/fail-closed",
      resources: ["configmaps"],
      failurePolicy: "Fail",
      clientConfig: { url: "https://127.0.0.1:1/unreachable" },
      namespaceSelector: { matchLabels: { "fail-closed-webhook": "yes" } },
    });
    const why =
      'failed calling webhook "fail-closed.example.com": failed to call webhook: Post "https://127.0.0.1:1/unreachable?timeout=10s": ' +
      "dial tcp 127.0.0.1:1: connect: connection refused";
    expect(await send("POST", "/api/v1/namespaces/closed/configmaps", configMap("a"))).toMatchObject({
      code: 500,
      body: { reason: "InternalError", message: `Internal error occurred: ${why}`, details: { causes: [{ message: why }] } },
    });
    expect((await send("POST", configMaps, configMap("a"))).code).toBe(201);
  });

  const stage = (number: number) => (request: Readonly<Record<string, unknown>>) =>
    valueAt(request, "object", "data", number === 1 ? "mutation-start" : "mutation-stage-1") === "yes"
      ? patchResponse([{ op: "add", path: `/data/mutation-stage-${number}`, value: "yes" }])
      : { allowed: true };

  it("should mutate configmap", async () => {
    webhook.on("/stage-1", stage(1));
    webhook.on("/stage-2", stage(2));
    await register(
      "Mutating",
      "stages",
      { path: "/stage-1", resources: ["configmaps"], operations: ["CREATE"] },
      { path: "/stage-2", resources: ["configmaps"], operations: ["CREATE"] },
    );
    const { body } = await send("POST", configMaps, configMap("a", { "mutation-start": "yes" }));
    expect(body["data"]).toEqual({ "mutation-start": "yes", "mutation-stage-1": "yes", "mutation-stage-2": "yes" });
  });

  it("should mutate pod and apply defaults after mutation", async () => {
    webhook.on("/init", () =>
      patchResponse([
        {
          op: "add",
          path: "/spec/initContainers",
          value: [{ name: "webhook-added-init-container", image: "pause:1", resources: {} }],
        },
      ]),
    );
    await register("Mutating", "init", { path: "/init", resources: ["pods"], operations: ["CREATE"] });
    const pod = { metadata: { name: "mutated" }, spec: { containers: [{ name: "c", image: "i" }] } };
    const { body } = await send("POST", pods, pod);
    expect(body["spec"].initContainers).toMatchObject([
      { name: "webhook-added-init-container", terminationMessagePolicy: "File", imagePullPolicy: "IfNotPresent" },
    ]);
  });

  it("should not be able to mutate or prevent deletion of webhook configuration objects", async () => {
    webhook.on("/always-deny", () => deny("denied"));
    webhook.on("/label", () => patchResponse([{ op: "add", path: "/metadata/labels", value: { added: "yes" } }]));
    const rule = { groups: ["*"], resources: ["*/*"], operations: ["*"] };
    await register("Validating", "all", { path: "/always-deny", ...rule });
    await register("Mutating", "all", { path: "/label", ...rule });
    webhook.on("/stage-1", stage(1));
    const created = await register("Validating", "dummy", { path: "/stage-1", resources: ["configmaps"] });
    expect(created).toMatchObject({ code: 201 });
    expect(created.body["metadata"].labels).toBeUndefined();
    expect((await send("DELETE", `${configurations}/validatingwebhookconfigurations/dummy`)).code).toBe(200);
    expect((await send("DELETE", `${configurations}/mutatingwebhookconfigurations/all`)).code).toBe(200);
    expect((await send("POST", configMaps, configMap("a"))).code).toBe(400);
  });

  it("should mutate custom resource", async () => {
    await environment.install([widgets]);
    webhook.on("/stage-1", stage(1));
    await register("Mutating", "custom", { path: "/stage-1", groups: ["example.com"], resources: ["widgets"] });
    const { body } = await send("POST", widgetPath, widget("a", { "mutation-start": "yes" }));
    expect(body).toMatchObject({ data: { "mutation-start": "yes", "mutation-stage-1": "yes" }, size: 3 });
  });

  it("should deny crd creation", async () => {
    webhook.on("/crd", (request) =>
      valueAt(request, "object", "metadata", "labels", "webhook-e2e-test") === "webhook-disallow"
        ? deny("the crd contains unwanted label")
        : { allowed: true },
    );
    await register("Validating", "crd", {
      path: "/crd",
      groups: ["apiextensions.k8s.io"],
      resources: ["customresourcedefinitions"],
      operations: ["CREATE"],
    });
    const crd = { ...widgets, metadata: { name: "widgets.example.com", labels: { "webhook-e2e-test": "webhook-disallow" } } };
    const answer = await send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd);
    expect(answer.body["message"]).toBe(
      'admission webhook "crd.example.com" denied the request: the crd contains unwanted label',
    );
  });

  it("should mutate custom resource with different stored version", async () => {
    await environment.install([widgets]);
    webhook.on("/stage-1", stage(1));
    await register("Mutating", "versions", { path: "/stage-1", groups: ["example.com"], resources: ["widgets"] });
    await send("POST", widgetPath, widget("a", { "mutation-start": "yes" }));
    const crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    const operations = [
      { op: "replace", path: "/spec/versions/0/storage", value: false },
      { op: "replace", path: "/spec/versions/1/storage", value: true },
    ];
    expect((await send("PATCH", crd, operations, "operations")).code).toBe(200);
    const updated = await send("PATCH", `${widgetPath}/a`, { metadata: { labels: { a: "b" } } }, "merge");
    expect(updated.body["data"]).toEqual({ "mutation-start": "yes", "mutation-stage-1": "yes" });
  });

  it("should mutate custom resource with pruning", async () => {
    await environment.install([widgets]);
    webhook.on("/stage-1", stage(1));
    webhook.on("/stage-2", stage(2));
    await register(
      "Mutating",
      "pruning",
      { path: "/stage-1", groups: ["example.com"], resources: ["widgets"] },
      { path: "/stage-2", groups: ["example.com"], resources: ["widgets"] },
    );
    const { body } = await send("POST", widgetPath, widget("a", { "mutation-start": "yes" }));
    expect(body["data"]).toEqual({ "mutation-start": "yes", "mutation-stage-1": "yes" });
  });

  it("should honor timeout", async () => {
    const clock = createVirtualClock();
    await environment.stop();
    environment = await startTestEnvironment({ clock });
    const released = createDeferred<void>();
    // The webhook does not respond before its timeout is over.
    webhook.on("/slow", async () => {
      void clock.advance(1_000);
      await released.promise;
      return { allowed: true };
    });
    const rule = { path: "/slow", resources: ["configmaps"] };
    await register("Validating", "slow", { ...rule, failurePolicy: "Fail", timeoutSeconds: 1 });
    const failed = await send("POST", configMaps, configMap("a"));
    expect(failed.body["message"]).toBe(
      'Internal error occurred: failed calling webhook "slow.example.com": failed to call webhook: ' +
        `Post "${webhook.url}/slow?timeout=1s": context deadline exceeded`,
    );
    const path = `${configurations}/validatingwebhookconfigurations/slow`;
    const update = (field: string, value: unknown): Promise<TestResponse> =>
      send("PATCH", path, [{ op: "replace", path: `/webhooks/0/${field}`, value }], "operations");
    expect((await update("failurePolicy", "Ignore")).code).toBe(200);
    expect((await send("POST", configMaps, configMap("b"))).code).toBe(201);
    released.resolve();
    expect((await update("timeoutSeconds", 10)).code).toBe(200);
    expect((await send("POST", configMaps, configMap("c"))).code).toBe(201);
  });

  it.each(["Mutating", "Validating"] as const)("patching/updating a %s webhook should work", async (type) => {
    webhook.on("/changed", (request) =>
      type === "Mutating"
        ? stage(1)(request)
        : valueAt(request, "object", "data", "mutation-start") === "yes"
          ? deny("no")
          : { allowed: true },
    );
    const isActive = async (name: string): Promise<boolean> => {
      const { code, body } = await send("POST", configMaps, configMap(name, { "mutation-start": "yes" }));
      return type === "Mutating" ? body["data"]["mutation-stage-1"] === "yes" : code === 400;
    };
    const { body: created } = await register(type, "changed", {
      path: "/changed",
      resources: ["configmaps"],
      operations: ["CREATE"],
    });
    expect(await isActive("a")).toBe(true);
    const path = `${configurations}/${type.toLowerCase()}webhookconfigurations/changed`;
    const webhooks = created["webhooks"] as JsonObject[];
    const rules = [{ operations: ["UPDATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] }];
    const updated = await send("PUT", path, { ...created, webhooks: webhooks.map((hook) => ({ ...hook, rules })) });
    expect(updated).toMatchObject({ code: 200, body: { metadata: { generation: 2 } } });
    expect(await isActive("b")).toBe(false);
    const patched = await send(
      "PATCH",
      path,
      [{ op: "replace", path: "/webhooks/0/rules/0/operations", value: ["CREATE"] }],
      "operations",
    );
    expect(patched.code).toBe(200);
    expect(await isActive("c")).toBe(true);
  });

  it.each(["Mutating", "Validating"] as const)("listing %s webhooks should work", async (type) => {
    webhook.on("/listed", () =>
      type === "Mutating" ? stage(1)({ object: configMap("", { "mutation-start": "yes" }) }) : deny("no"),
    );
    const plural = `${type.toLowerCase()}webhookconfigurations`;
    for (const index of [0, 1, 2]) await register(type, `listed-${index}`, { path: "/listed", resources: ["configmaps"] });
    const list = await environment.handle({
      method: "GET",
      path: `${configurations}/${plural}`,
      user: { username: "a", groups: ["system:masters"] },
    });
    expect(list).toMatchObject({ kind: "list", items: { length: 3 } });
    const before = await send("POST", configMaps, configMap("a", { "mutation-start": "yes" }));
    expect(type === "Mutating" ? before.body["data"]["mutation-stage-1"] : before.code).toBe(type === "Mutating" ? "yes" : 400);
    expect((await send("DELETE", `${configurations}/${plural}`)).code).toBe(200);
    const { body } = await send("POST", configMaps, configMap("b", { "mutation-start": "yes" }));
    expect(body["data"]).toEqual({ "mutation-start": "yes" });
  });

  it.each(["Mutating", "Validating"] as const)(
    "should be able to create and update %s webhook configurations with match conditions",
    async (type) => {
      const condition = { name: "expression-1", expression: "request.userInfo.username == 'noxu'" };
      const { code, body } = await register(type, "conditions", {
        path: "/c",
        resources: ["configmaps"],
        matchConditions: [condition],
      });
      expect(code).toBe(201);
      expect(body["webhooks"][0].matchConditions).toEqual([condition]);
      const changed = [{ op: "replace", path: "/webhooks/0/matchConditions/0/expression", value: "true" }];
      const path = `${configurations}/${type.toLowerCase()}webhookconfigurations/conditions`;
      expect((await send("PATCH", path, changed, "operations")).code).toBe(200);
    },
  );

  it.each(["Mutating", "Validating"] as const)(
    "should reject %s webhook configurations with invalid match conditions",
    async (type) => {
      const condition = { name: "invalid-expression-1", expression: "... [] bad expression" };
      const { code, body } = await register(type, "bad", {
        path: "/c",
        resources: ["configmaps"],
        matchConditions: [condition],
      });
      expect(code).toBe(422);
      expect(body["message"]).toMatch(
        /webhooks\[0\]\.matchConditions\[0\]\.expression: Invalid value: .*: compilation failed/s,
      );
    },
  );

  it("should mutate everything except 'skip-me' configmaps", async () => {
    webhook.on("/not-skipped", () => patchResponse([{ op: "add", path: "/data/mutation-stage-1", value: "yes" }]));
    await register("Mutating", "skip", {
      path: "/not-skipped",
      resources: ["configmaps"],
      matchConditions: [{ name: "skip-me", expression: "object.metadata.name != 'skip-me'" }],
    });
    expect((await send("POST", configMaps, configMap("skip-me"))).body["data"]).toBeUndefined();
    const { body } = await send("POST", configMaps, configMap("not-skipped", { "mutation-start": "yes" }));
    expect(body["data"]).toEqual({ "mutation-start": "yes", "mutation-stage-1": "yes" });
  });

  it("should include webhook resources in discovery documents", () => {
    for (const plural of ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]) {
      expect(environment.resources.get("admissionregistration.k8s.io", "v1", plural)).toMatchObject({ scope: "Cluster" });
    }
  });
});
