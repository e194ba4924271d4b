import type { JsonObject, KubernetesObject } from "@keelson/api-machinery";
import { createDeferred } from "@keelson/api-machinery/deferred";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type TestResponse, sendRequest, type RequestArguments } from "../../endpoints/testing/send-request.ts";
import { valueAt } from "../../registry/object-fields.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { patchResponse, startTestWebhook, type TestWebhook } from "../../webhooks/testing/test-webhook.ts";
import type { WebhookObservation } from "./webhook-metrics.ts";

let environment: TestEnvironment;
let webhook: TestWebhook;
beforeAll(async () => void (webhook = await startTestWebhook(["127.0.0.1", "hook.default.svc"])));
afterAll(() => webhook.stop());
const observations: WebhookObservation[] = [];
beforeEach(async () => {
  observations.length = 0;
  const webhookMetrics = { observe: (observation: WebhookObservation) => void observations.push(observation) };
  environment = await startTestEnvironment({ webhookMetrics });
});
afterEach(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);
const configMaps = "/api/v1/namespaces/default/configmaps";
const configMap = (name: string, rest: object = {}): object => ({ metadata: { name }, ...rest });

type Type = "Mutating" | "Validating";

/** Registers a webhook for ConfigMaps at `path`. */
async function register(type: Type, path: string, fields: Readonly<Record<string, unknown>> = {}): Promise<TestResponse> {
  const { configuration = `${type.toLowerCase()}${path.replaceAll("/", "-")}`, ...rest } = fields;
  const rules = [{ operations: ["*"], apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"] }];
  const hook = {
    name: `${path.slice(1)}.example.com`,
    clientConfig: { url: `${webhook.url}${path}`, caBundle: webhook.caBundle },
    rules,
    sideEffects: "None",
    admissionReviewVersions: ["v1"],
    ...rest,
  };
  const answer = await send("POST", `/apis/admissionregistration.k8s.io/v1/${type.toLowerCase()}webhookconfigurations`, {
    metadata: { name: configuration },
    webhooks: [hook],
  });
  expect(answer.code).toBe(201);
  return answer;
}

const label = (name: string): JsonObject => patchResponse([{ op: "add", path: `/data/${name}`, value: "yes" }]);

describe("a review", () => {
  it("has the request's user, options and objects", async () => {
    await register("Validating", "/seen");
    await send("POST", `${configMaps}?dryRun=All&fieldManager=m&fieldValidation=Strict`, configMap("a", { data: { a: "1" } }));
    expect(webhook.requests("/seen").at(-1)).toMatchObject({
      kind: { group: "", version: "v1", kind: "ConfigMap" },
      resource: { group: "", version: "v1", resource: "configmaps" },
      requestKind: { group: "", version: "v1", kind: "ConfigMap" },
      requestResource: { group: "", version: "v1", resource: "configmaps" },
      name: "a",
      namespace: "default",
      operation: "CREATE",
      userInfo: { username: "system:apiserver", groups: ["system:masters", "system:authenticated"] },
      object: { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", namespace: "default" }, data: { a: "1" } },
      oldObject: null,
      dryRun: true,
      options: {
        kind: "CreateOptions",
        apiVersion: "meta.k8s.io/v1",
        dryRun: ["All"],
        fieldManager: "m",
        fieldValidation: "Strict",
      },
    });
    await send("POST", configMaps, configMap("a"));
    await send("PATCH", `${configMaps}/a`, { data: { b: "2" } }, "merge");
    expect(webhook.requests("/seen").at(-1)).toMatchObject({
      operation: "UPDATE",
      object: { data: { b: "2" } },
      options: { kind: "UpdateOptions" },
    });
    await send("DELETE", `${configMaps}/a`, { propagationPolicy: "Background" });
    expect(webhook.requests("/seen").at(-1)).toMatchObject({
      operation: "DELETE",
      name: "a",
      object: null,
      oldObject: { metadata: { name: "a" }, data: { b: "2" } },
      options: { kind: "DeleteOptions", apiVersion: "meta.k8s.io/v1", propagationPolicy: "Background" },
    });
  });

  it("is sent for each object of a deleted collection", async () => {
    for (const name of ["a", "b"]) await send("POST", configMaps, configMap(name));
    await register("Validating", "/collection");
    await send("DELETE", configMaps);
    expect(
      webhook
        .requests("/collection")
        .map(({ name, operation }) => `${String(operation)} ${String(name)}`)
        .sort(),
    ).toEqual(["DELETE a", "DELETE b"]);
  });

  it("shows mutating webhooks what the client sent, and validating ones what is stored", async () => {
    await register("Mutating", "/before");
    await register("Validating", "/after");
    const { body } = await send("POST", configMaps, { metadata: { generateName: "g-" } });
    const [before, after] = [webhook.requests("/before").at(-1), webhook.requests("/after").at(-1)];
    expect(before).not.toHaveProperty("name");
    expect(valueAt(before, "object", "metadata", "uid")).toBeUndefined();
    expect(after).toMatchObject({ name: body["metadata"].name, object: { metadata: { uid: body["metadata"].uid } } });
  });

  it("shows a Scale, an Eviction and a Binding as their own kinds", async () => {
    const rules = [
      { operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/scale", "pods/eviction", "pods/binding"] },
    ];
    await register("Validating", "/views", { rules });
    const template = { metadata: { labels: { a: "b" } }, spec: { containers: [{ name: "c", image: "i" }] } };
    const spec = { replicas: 1, selector: { matchLabels: { a: "b" } }, template };
    await send("POST", "/apis/apps/v1/namespaces/default/deployments", { metadata: { name: "d" }, spec });
    await send("PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", { spec: { replicas: 3 } }, "merge");
    expect(webhook.requests("/views").at(-1)).toMatchObject({
      operation: "UPDATE",
      kind: { group: "autoscaling", version: "v1", kind: "Scale" },
      resource: { group: "apps", resource: "deployments" },
      subResource: "scale",
      object: { kind: "Scale", spec: { replicas: 3 } },
      oldObject: { kind: "Scale", spec: { replicas: 1 } },
    });
    const pods = "/api/v1/namespaces/default/pods";
    await send("POST", pods, { metadata: { name: "p" }, spec: template.spec });
    await send("POST", `${pods}/p/binding`, { metadata: { name: "p" }, target: { kind: "Node", name: "n" } });
    expect(webhook.requests("/views").at(-1)).toMatchObject({
      operation: "CREATE",
      object: { kind: "Binding", target: { name: "n" } },
    });
    await send("POST", `${pods}/p/eviction`, { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "p" } });
    expect(webhook.requests("/views").at(-1)).toMatchObject({
      operation: "CREATE",
      kind: { group: "policy", version: "v1", kind: "Eviction" },
      subResource: "eviction",
      name: "p",
    });
  });
});

describe("a denial", () => {
  it.each([
    [{ message: "no", code: 403, reason: "Forbidden" }, 403, "Forbidden", ": no"],
    [{ reason: "Because" }, 400, "Because", ": Because"],
    [{ code: 200, status: "Success" }, 400, undefined, " without explanation"],
    [undefined, 400, undefined, " without explanation"],
  ])("keeps the webhook's status %j", async (status, code, reason, text) => {
    webhook.on("/deny", () => ({ allowed: false, ...(status === undefined ? {} : { status: status as JsonObject }) }));
    await register("Validating", "/deny");
    const answer = await send("POST", configMaps, configMap("a"));
    expect(answer).toMatchObject({
      code,
      body: { kind: "Status", status: "Failure", message: `admission webhook "deny.example.com" denied the request${text}` },
    });
    expect(answer.body["reason"]).toBe(reason);
    expect(observations).toMatchObject([
      { name: "deny.example.com", type: "validating", operation: "CREATE", code, outcome: "denied" },
    ]);
  });

  it("stops a mutation before later webhooks and before storage", async () => {
    webhook.on("/first", () => ({ allowed: false }));
    await register("Mutating", "/first", { configuration: "a" });
    await register("Mutating", "/second", { configuration: "b" });
    expect((await send("POST", configMaps, configMap("a"))).code).toBe(400);
    expect(webhook.requests("/second")).toEqual([]);
    expect((await send("GET", `${configMaps}/a`)).code).toBe(404);
  });
});

describe("a failed call", () => {
  const failed = (name: string, why: string): string =>
    `Internal error occurred: failed calling webhook "${name}.example.com": ${why}`;

  it.each([
    [
      "error",
      { raw: "broken", status: 500 },
      'failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding',
    ],
    ["missing", { raw: "", status: 404 }, "failed to call webhook: the server could not find the requested resource"],
    [
      "redirect",
      { raw: "", status: 302 },
      "failed to call webhook: the server responded with the status code 302 but did not return more information",
    ],
    ["absent", { raw: "{}" }, "received invalid webhook response: webhook response was absent"],
    [
      "uid",
      { uid: "other", allowed: true },
      /^received invalid webhook response: expected response\.uid="[-\da-f]+", got "other"$/,
    ],
    ["patched", patchResponse([]), "received invalid webhook response: validating webhook may not return response.patch"],
  ])("%s is reported as kube-apiserver does", async (name, response, why) => {
    webhook.on(`/${name}`, () => response);
    await register("Validating", `/${name}`);
    const { code, body } = await send("POST", configMaps, configMap("a"));
    expect(code).toBe(500);
    const prefix = failed(name, "");
    expect(body["message"].startsWith(prefix)).toBe(true);
    const rest = body["message"].slice(prefix.length);
    if (typeof why === "string") expect(rest).toBe(why);
    else expect(rest).toMatch(why);
    expect(observations).toMatchObject([{ outcome: "failed-closed" }]);
  });

  it.each([
    [
      "no-type",
      { allowed: true, patch: "W10=" },
      "received invalid webhook response: webhook returned response.patch but not response.patchType",
    ],
    [
      "no-patch",
      { allowed: true, patchType: "JSONPatch" },
      "received invalid webhook response: webhook returned response.patchType but not response.patch",
    ],
    ["bad-type", { allowed: true, patch: "W10=", patchType: "Merge" }, 'unsupported patch type "Merge"'],
    ["no-json", { allowed: true, patch: "e30=", patchType: "JSONPatch" }, /^received undecodable patch in webhook response: /],
  ])("%s of a mutating webhook is reported as kube-apiserver does", async (name, response, why) => {
    webhook.on(`/${name}`, () => response);
    await register("Mutating", `/${name}`);
    const { body } = await send("POST", configMaps, configMap("a"));
    const rest = body["message"].slice(failed(name, "").length);
    if (typeof why === "string") expect(rest).toBe(why);
    else expect(rest).toMatch(why);
  });

  it("is ignored with the failure policy Ignore, but a denial is not", async () => {
    webhook.on("/open", () => ({ raw: "", status: 503 }));
    await register("Validating", "/open", { failurePolicy: "Ignore" });
    expect((await send("POST", configMaps, configMap("a"))).code).toBe(201);
    expect(observations).toMatchObject([{ outcome: "failed-open", code: 503 }]);
    webhook.on("/open", () => ({ allowed: false }));
    expect((await send("POST", configMaps, configMap("b"))).code).toBe(400);
  });

  it("is one for a certificate that is signed by another authority or valid for another host", async () => {
    await using other = await startTestWebhook(["other.example.com"]);
    const clientConfig = { url: `${webhook.url}/ok`, caBundle: other.caBundle };
    await register("Validating", "/untrusted", { clientConfig });
    const post = `failed to call webhook: Post "${webhook.url}/ok?timeout=10s": tls: failed to verify certificate: x509: `;
    expect((await send("POST", configMaps, configMap("a"))).body["message"]).toBe(
      failed("untrusted", `${post}certificate signed by unknown authority`),
    );
    await send("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations");
    await register("Validating", "/host", { clientConfig: { url: other.url, caBundle: other.caBundle } });
    expect((await send("POST", configMaps, configMap("a"))).body["message"]).toContain(
      "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
    );
  });

  it("is one for a response that is too large", async () => {
    webhook.on("/large", () => ({ raw: `"${"x".repeat(17 * 1024 * 1024)}"` }));
    await register("Validating", "/large");
    expect((await send("POST", configMaps, configMap("a"))).body["message"]).toBe(
      failed("large", "failed to call webhook: the response is larger than the limit of 16777216 bytes"),
    );
  });
});

describe("webhooks that match", () => {
  it("are called in the order of configurations, and all validating ones at the same time", async () => {
    webhook.on("/b", (request) => label(valueAt(request, "object", "data", "from-a") === undefined ? "b-first" : "from-b"));
    webhook.on("/a", () => label("from-a"));
    await register("Mutating", "/b", { configuration: "2" });
    await register("Mutating", "/a", { configuration: "1" });
    const waiting = [createDeferred<void>(), createDeferred<void>()];
    for (const [index, path] of ["/left", "/right"].entries()) {
      // Each responds only when the other has been called.
      webhook.on(path, async () => {
        waiting[index]?.resolve();
        await waiting[1 - index]?.promise;
        return { allowed: true };
      });
      await register("Validating", path);
    }
    const { body } = await send("POST", configMaps, configMap("a", { data: { a: "1" } }));
    expect(body["data"]).toEqual({ a: "1", "from-a": "yes", "from-b": "yes" });
  });

  it("are those whose rules name the subresource", async () => {
    const rule = (resources: readonly string[]) => ({
      rules: [{ operations: ["UPDATE"], apiGroups: [""], apiVersions: ["v1"], resources }],
    });
    await register("Validating", "/object", rule(["namespaces"]));
    await register("Validating", "/status", rule(["namespaces/status"]));
    await register("Validating", "/both", rule(["namespaces/*"]));
    await send("PATCH", "/api/v1/namespaces/default/status", { status: { phase: "Active" } }, "merge");
    await send("PATCH", "/api/v1/namespaces/default", { metadata: { labels: { a: "b" } } }, "merge");
    const seen = (path: string): string[] => webhook.requests(path).map(({ subResource = "" }) => String(subResource));
    expect([seen("/object"), seen("/status"), seen("/both")]).toEqual([[""], ["status"], ["status", ""]]);
  });

  it("are those of the scope, in which Namespaces are cluster-scoped and have their own name as namespace", async () => {
    const rule = (scope: string) => ({
      rules: [{ operations: ["CREATE"], apiGroups: [""], apiVersions: ["v1"], resources: ["namespaces", "configmaps"], scope }],
    });
    await register("Validating", "/cluster", rule("Cluster"));
    await register("Validating", "/namespaced", rule("Namespaced"));
    await send("POST", "/api/v1/namespaces", { metadata: { name: "new" } });
    await send("POST", configMaps, configMap("a"));
    expect(webhook.requests("/cluster")).toMatchObject([{ name: "new", namespace: "new" }]);
    expect(webhook.requests("/namespaced")).toMatchObject([{ name: "a", namespace: "default" }]);
  });

  it("are selected by labels of the new or old object, and by those of the namespace", async () => {
    await register("Validating", "/labelled", { objectSelector: { matchLabels: { a: "b" } } });
    await send("POST", configMaps, configMap("a"));
    expect(webhook.requests("/labelled")).toHaveLength(0);
    await send("PATCH", `${configMaps}/a`, { metadata: { labels: { a: "b" } } }, "merge");
    await send("PATCH", `${configMaps}/a`, { metadata: { labels: null } }, "merge");
    await send("PATCH", `${configMaps}/a`, { data: { a: "1" } }, "merge");
    expect(webhook.requests("/labelled")).toHaveLength(2);
  });

  it("get objects in the version of their rule, or are skipped with the match policy Exact", async () => {
    const rules = [{ operations: ["CREATE"], apiGroups: ["events.k8s.io"], apiVersions: ["v1"], resources: ["events"] }];
    await register("Validating", "/equivalent", { rules });
    await register("Validating", "/exact", { rules, matchPolicy: "Exact" });
    const involvedObject = { kind: "Pod", name: "p", namespace: "default" };
    await send("POST", "/api/v1/namespaces/default/events", {
      metadata: { name: "e" },
      involvedObject,
      message: "hello",
      type: "Normal",
    });
    expect(webhook.requests("/exact")).toEqual([]);
    expect(webhook.requests("/equivalent")).toMatchObject([
      {
        kind: { group: "events.k8s.io", version: "v1", kind: "Event" },
        resource: { group: "events.k8s.io", version: "v1", resource: "events" },
        requestKind: { group: "", version: "v1", kind: "Event" },
        requestResource: { group: "", version: "v1", resource: "events" },
        object: { apiVersion: "events.k8s.io/v1", note: "hello" },
      },
    ]);
  });

  it("are those whose match conditions hold, which may check the permissions of the user", async () => {
    const condition = (expression: string) => ({ matchConditions: [{ name: "c", expression }] });
    await register(
      "Validating",
      "/allowed",
      condition("authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"),
    );
    await register(
      "Validating",
      "/denied",
      condition("authorizer.serviceAccount('default', 'x').requestResource.check('get').allowed()"),
    );
    await register("Validating", "/old", condition("oldObject != null && object.data != oldObject.data"));
    expect((await send("POST", configMaps, configMap("a", { data: { a: "1" } }))).code).toBe(201);
    expect((await send("PATCH", `${configMaps}/a`, { data: { a: "2" } }, "merge")).code).toBe(200);
    expect(["/allowed", "/denied", "/old"].map((path) => webhook.requests(path).length)).toEqual([2, 0, 1]);
  });

  it("reject the request if a match condition fails, unless another one is false or failures are ignored", async () => {
    const failing = { name: "failing", expression: "object.data.missing == 'x'" };
    await register("Validating", "/failing", { matchConditions: [failing] });
    await register("Validating", "/ignoring", { matchConditions: [failing], failurePolicy: "Ignore" });
    expect(await send("POST", configMaps, configMap("a", { data: { a: "1" } }))).toMatchObject({
      code: 403,
      body: {
        message: `configmaps "a" is forbidden: expression 'object.data.missing == 'x'' resulted in error: no such key: missing`,
      },
    });
    await send("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/validating-failing");
    await register("Validating", "/failing", { matchConditions: [failing, { name: "never", expression: "false" }] });
    expect((await send("POST", configMaps, configMap("a", { data: { a: "1" } }))).code).toBe(201);
  });
});

describe("a mutation", () => {
  it("runs webhooks with the policy IfNeeded again after a later change, once", async () => {
    const seen: unknown[] = [];
    webhook.on("/needed", (request) => {
      seen.push(valueAt(request, "object", "data"));
      return { allowed: true };
    });
    webhook.on("/never", () => label("never"));
    webhook.on("/changes", () => label("changed"));
    await register("Mutating", "/needed", { configuration: "1", reinvocationPolicy: "IfNeeded" });
    await register("Mutating", "/never", { configuration: "2" });
    await register("Mutating", "/changes", { configuration: "3" });
    await send("POST", configMaps, configMap("a", { data: { a: "1" } }));
    expect(seen).toEqual([{ a: "1" }, { a: "1", never: "yes", changed: "yes" }]);
    expect(webhook.requests("/never")).toHaveLength(1);
  });

  it("cannot change a deletion, the status, the name or the namespace", async () => {
    webhook.on("/deletes", () => patchResponse([{ op: "add", path: "/data", value: {} }]));
    await send("POST", configMaps, configMap("a"));
    await register("Mutating", "/deletes");
    expect((await send("DELETE", `${configMaps}/a`)).body["message"]).toBe(
      'Internal error occurred: admission webhook "deletes.example.com" attempted to modify the object, which is not supported for this operation',
    );
    webhook.on("/deletes", () => patchResponse([{ op: "replace", path: "/metadata/name", value: "other" }]));
    expect((await send("PATCH", `${configMaps}/a`, { data: { a: "1" } }, "merge")).body["message"]).toContain(
      "field is immutable",
    );
  });

  it("fails if the patch does not apply or the result is not an object of the kind", async () => {
    webhook.on("/bad", () => patchResponse([{ op: "replace", path: "/data/missing", value: "x" }]));
    await register("Mutating", "/bad");
    expect(await send("POST", configMaps, configMap("a", { data: {} }))).toMatchObject({
      code: 500,
      body: { message: expect.stringMatching(/^Internal error occurred: replace operation does not apply: /) },
    });
    webhook.on("/bad", () => patchResponse([{ op: "add", path: "/data", value: 7 }]));
    expect(await send("POST", configMaps, configMap("a"))).toMatchObject({ code: 500, body: { reason: "InternalError" } });
  });

  it("is validated: an object that a webhook made invalid is rejected", async () => {
    webhook.on("/invalid", () => patchResponse([{ op: "add", path: "/metadata/labels", value: { "not a key": "x" } }]));
    await register("Mutating", "/invalid");
    expect(await send("POST", configMaps, configMap("a"))).toMatchObject({ code: 422, body: { reason: "Invalid" } });
  });
});

describe("a webhook", () => {
  it("adds warnings to the response, even if it denies the request", async () => {
    webhook.on("/warns", (request) => ({ allowed: request["name"] === "a", warnings: ["beware"] }));
    await register("Validating", "/warns");
    expect((await send("POST", configMaps, configMap("a"))).warnings).toEqual(["beware"]);
    expect((await send("POST", configMaps, configMap("b"))).warnings).toEqual(["beware"]);
  });

  it("with side effects is not called for a dry run", async () => {
    webhook.on("/effects", () => ({ allowed: true }));
    await register("Validating", "/effects", { sideEffects: "NoneOnDryRun" });
    expect((await send("POST", `${configMaps}?dryRun=All`, configMap("a"))).code).toBe(201);
    const stored = environment.store.get("admissionregistration.k8s.io/validatingwebhookconfigurations//validating-effects");
    const old = structuredClone(stored?.object) as unknown as KubernetesObject & { webhooks: Record<string, unknown>[] };
    // Such a configuration can only have been stored by an earlier version.
    for (const hook of old.webhooks) hook["sideEffects"] = "Some";
    await environment.store.write(stored?.key ?? "", stored?.revision ?? 0, old);
    expect(await send("POST", `${configMaps}?dryRun=All`, configMap("b"))).toMatchObject({
      code: 400,
      body: { message: 'admission webhook "effects.example.com" does not support dry run' },
    });
  });

  it("of a Service is reached at a ready endpoint, by its name", async () => {
    webhook.on("/service", () => ({ allowed: false }));
    const service = { namespace: "default", name: "hook", path: "/service" };
    await register("Validating", "/service", {
      clientConfig: { service, caBundle: webhook.caBundle },
      objectSelector: { matchLabels: { a: "b" } },
    });
    const create = async (): Promise<string> => {
      const answer = await send("POST", configMaps, { metadata: { name: "a", labels: { a: "b" } } });
      return answer.body["message"];
    };
    const post =
      'Internal error occurred: failed calling webhook "service.example.com": failed to call webhook: Post "https://hook.default.svc:443/service?timeout=10s": ';
    expect(await create()).toBe(`${post}service "hook" not found`);
    await send("POST", "/api/v1/namespaces/default/services", { metadata: { name: "hook" }, spec: { ports: [{ port: 443 }] } });
    expect(await create()).toBe(`${post}no endpoints available for service "hook"`);
    await send("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
      metadata: { name: "hook-1", labels: { "kubernetes.io/service-name": "hook" } },
      addressType: "IPv4",
      ports: [{ name: "", port: webhook.port }],
      endpoints: [
        { addresses: ["127.0.0.2"], conditions: { ready: false } },
        { addresses: ["127.0.0.1"], conditions: { ready: true } },
      ],
    });
    expect(await create()).toBe('admission webhook "service.example.com" denied the request without explanation');
  });

  it("is called again over a new connection after a restart", async () => {
    webhook.on("/again", () => ({ allowed: true }));
    await register("Validating", "/again");
    expect((await send("POST", configMaps, configMap("a"))).code).toBe(201);
    webhook.disconnect();
    expect((await send("POST", configMaps, configMap("b"))).code).toBe(201);
  });
});
