import { isJsonObject, type JsonObject, type KubernetesObject } from "@keelson/api-machinery";
import { createClient } from "@keelson/client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type TestResponse, sendRequest, type RequestArguments } from "../../endpoints/testing/send-request.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { type Respond, startTestWebhook, type TestWebhook } from "../../webhooks/testing/test-webhook.ts";

let environment: TestEnvironment;
let webhook: TestWebhook;
beforeAll(async () => void (webhook = await startTestWebhook()));
afterAll(() => webhook.stop());
beforeEach(async () => {
  webhook.on("/convert", convertAll);
  environment = await startTestEnvironment({ crds: [endpointsCrd("v1")] });
});
afterEach(() => environment.stop());

const send = (...request: RequestArguments): Promise<TestResponse> => sendRequest(environment, ...request);
const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/servers.stable.example.com";
const path = (version: string): string => `/apis/stable.example.com/${version}/namespaces/default/servers`;
const text = { type: "string" };

/** As in Kubernetes' suite: `hostPort` of v1 is `host` and `port` of v2. */
function endpointsCrd(storage: string): KubernetesObject {
  const version = (name: string, spec: JsonObject): JsonObject => ({
    name,
    selectableFields: Object.keys(spec["properties"] ?? {}).map((field) => ({ jsonPath: `.spec.${field}` })),
    served: true,
    storage: name === storage,
    subresources: { status: {} },
    schema: {
      openAPIV3Schema: { type: "object", properties: { spec, status: { type: "object", properties: { state: text } } } },
    },
  });
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "servers.stable.example.com" },
    spec: {
      group: "stable.example.com",
      scope: "Namespaced",
      names: { kind: "Server", plural: "servers" },
      conversion: {
        strategy: "Webhook",
        webhook: {
          clientConfig: { url: `${webhook.url}/convert`, caBundle: webhook.caBundle },
          conversionReviewVersions: ["v1"],
        },
      },
      versions: [
        version("v1", { type: "object", properties: { hostPort: text } }),
        version("v2", { type: "object", properties: { host: text, port: text } }),
      ],
    },
  } as unknown as KubernetesObject;
}

function converted(object: JsonObject, apiVersion: string): JsonObject {
  const spec = isJsonObject(object["spec"]) ? object["spec"] : {};
  const [host = "", port = ""] = String(spec["hostPort"]).split(":");
  return {
    ...object,
    apiVersion,
    spec: apiVersion.endsWith("v2") ? { host, port } : { hostPort: `${String(spec["host"])}:${String(spec["port"])}` },
  };
}

const convertAll: Respond = ({ objects, desiredAPIVersion }) => ({
  result: { status: "Success" },
  convertedObjects: (objects as JsonObject[]).map((object) => converted(object, String(desiredAPIVersion))),
});

const server = (name: string, hostPort = "localhost:8080"): JsonObject => ({
  apiVersion: "stable.example.com/v1",
  kind: "Server",
  metadata: { name, labels: { a: "b" } },
  spec: { hostPort },
});

async function store(version: string): Promise<void> {
  const operations = [
    { op: "replace", path: "/spec/versions/0/storage", value: version === "v1" },
    { op: "replace", path: "/spec/versions/1/storage", value: version === "v2" },
  ];
  expect((await send("PATCH", crdPath, operations, "operations")).code).toBe(200);
}

const client = () => createClient({ transport: environment.transport(), fieldManager: "test" });
const serverType = (version: string) =>
  ({ group: "stable.example.com", version, kind: "Server", plural: "servers", scope: "Namespaced" }) as const;

describe("CustomResourceConversionWebhook", () => {
  it("should be able to convert from CR v1 to CR v2", async () => {
    await send("POST", path("v1"), server("a"));
    expect(await send("GET", `${path("v2")}/a`)).toMatchObject({
      code: 200,
      body: {
        apiVersion: "stable.example.com/v2",
        metadata: { labels: { a: "b" } },
        spec: { host: "localhost", port: "8080" },
      },
    });
  });

  it("should be able to convert a non homogeneous list of CRs", async () => {
    await send("POST", path("v1"), server("a"));
    await store("v2");
    await send("POST", path("v1"), server("b", "other:1"));
    for (const [version, specs] of [
      ["v1", [{ hostPort: "localhost:8080" }, { hostPort: "other:1" }]],
      [
        "v2",
        [
          { host: "localhost", port: "8080" },
          { host: "other", port: "1" },
        ],
      ],
    ] as const) {
      const { items } = await client().list(serverType(version), { namespace: "default" });
      expect(items.map((item) => (item as unknown as { spec: unknown }).spec)).toEqual(specs);
    }
  });
});

describe("conversion by webhook", () => {
  it("stores writes through any version in the storage version", async () => {
    const created = await send("POST", path("v2"), {
      apiVersion: "stable.example.com/v2",
      kind: "Server",
      metadata: { name: "a" },
      spec: { host: "h", port: "1" },
    });
    expect(created).toMatchObject({ code: 201, body: { apiVersion: "stable.example.com/v2", spec: { host: "h", port: "1" } } });
    expect(environment.store.get("stable.example.com/servers/default/a")?.object).toMatchObject({
      apiVersion: "stable.example.com/v1",
      spec: { hostPort: "h:1" },
    });
    const patched = await send("PATCH", `${path("v2")}/a`, { spec: { port: "2" } }, "merge");
    expect(patched.body).toMatchObject({ spec: { host: "h", port: "2" }, metadata: { generation: 2 } });
    expect((await send("PATCH", `${path("v2")}/a/status`, { status: { state: "up" } }, "merge")).body).toMatchObject({
      apiVersion: "stable.example.com/v2",
      status: { state: "up" },
    });
    const config = { apiVersion: "stable.example.com/v2", kind: "Server", metadata: { name: "a" }, spec: { port: "3" } };
    const applied = await send("PATCH", `${path("v2")}/a?fieldManager=m&force=true`, config, "apply");
    expect(applied).toMatchObject({ code: 200, body: { spec: { host: "h", port: "3" }, status: { state: "up" } } });
    expect((await send("GET", `${path("v1")}/a`)).body["spec"]).toEqual({ hostPort: "h:3" });
    expect((await send("DELETE", `${path("v2")}/a`)).code).toBe(200);
  });

  it("converts the events of a watch, in order", async () => {
    await send("POST", path("v1"), server("a", "a:1"));
    const watch = await client().watch(serverType("v2"), { namespace: "default" });
    await send("POST", path("v1"), server("b", "b:1"));
    await send("PATCH", `${path("v1")}/a`, { spec: { hostPort: "a:2" } }, "merge");
    await send("DELETE", `${path("v1")}/b`);
    const seen: string[] = [];
    for await (const { type, object } of watch) {
      const { spec } = object as unknown as { spec: { host: string; port: string } };
      seen.push(`${type} ${object.apiVersion} ${spec.host}:${spec.port}`);
      if (seen.length === 4) break;
    }
    const version = "stable.example.com/v2";
    expect(seen).toEqual([`ADDED ${version} a:1`, `ADDED ${version} b:1`, `MODIFIED ${version} a:2`, `DELETED ${version} b:1`]);
  });

  it("selects by the fields of the requested version, in lists and watches", async () => {
    await send("POST", path("v1"), server("a", "a:1"));
    await send("POST", path("v1"), server("b", "b:1"));
    const names = async (version: string, fieldSelector: string): Promise<unknown> => {
      const { items } = await client().list(serverType(version), { namespace: "default", fieldSelector });
      return items.map(({ metadata }) => metadata.name);
    };
    expect(await names("v2", "spec.host=a")).toEqual(["a"]);
    expect(await names("v2", "spec.host=a,spec.port=2")).toEqual([]);
    expect(await names("v1", "spec.hostPort=b:1")).toEqual(["b"]);

    const watch = await client().watch(serverType("v2"), { namespace: "default", fieldSelector: "spec.host=a" });
    await send("PATCH", `${path("v1")}/b`, { spec: { hostPort: "a:3" } }, "merge");
    await send("PATCH", `${path("v1")}/a`, { spec: { hostPort: "c:1" } }, "merge");
    await send("DELETE", `${path("v1")}/b`);
    const seen: string[] = [];
    for await (const { type, object } of watch) {
      seen.push(`${type} ${object.metadata.name}`);
      if (seen.length === 4) break;
    }
    expect(seen).toEqual(["ADDED a", "ADDED b", "DELETED a", "DELETED b"]);
  });

  it("calls the webhook once for an object and version, and for a list once", async () => {
    for (const name of ["a", "b", "c"]) await send("POST", path("v1"), server(name));
    const before = webhook.requests("/convert").length;
    await client().list(serverType("v2"), { namespace: "default" });
    await client().list(serverType("v2"), { namespace: "default" });
    await send("GET", `${path("v2")}/a`);
    expect(webhook.requests("/convert").length - before).toBe(1);
  });

  it("keeps the metadata except labels and annotations", async () => {
    await send("POST", path("v1"), server("a"));
    webhook.on("/convert", ({ objects, desiredAPIVersion }) => ({
      result: { status: "Success" },
      convertedObjects: (objects as JsonObject[]).map((object) => {
        const result = converted(object, String(desiredAPIVersion));
        const metadata = object["metadata"] as JsonObject;
        return { ...result, metadata: { ...metadata, labels: { new: "label" }, generation: 99, finalizers: ["x/y"] } };
      }),
    }));
    const { body } = await send("GET", `${path("v2")}/a`);
    expect(body["metadata"]).toMatchObject({ name: "a", generation: 1, labels: { new: "label" } });
    expect(body["metadata"]).not.toHaveProperty("finalizers");
  });

  const success = { status: "Success" };
  const gvk = "stable.example.com/v1, Kind=Server";
  it.each([
    ["a failure", { result: { status: "Failed", message: "cannot" } }, `conversion webhook for ${gvk} failed: cannot`],
    [
      "no message",
      { result: { status: "Failed" } },
      `conversion webhook for ${gvk} failed: response.result.status was 'Failed', not 'Success'`,
    ],
    ["no objects", { result: success, convertedObjects: [] }, `conversion webhook for ${gvk} returned 0 objects, expected 1`],
    [
      "the wrong version",
      { result: success, convertedObjects: [{ apiVersion: "v1", kind: "Server" }] },
      `conversion webhook for ${gvk} returned invalid converted object at index 0: invalid groupVersion (expected stable.example.com/v2, received v1)`,
    ],
    [
      "the wrong kind",
      { result: success, convertedObjects: [{ apiVersion: "stable.example.com/v2", kind: "X" }] },
      `conversion webhook for ${gvk} returned invalid converted object at index 0: invalid kind (expected Server, received X)`,
    ],
    [
      "another name",
      { result: success, convertedObjects: [{ apiVersion: "stable.example.com/v2", kind: "Server", metadata: { name: "b" } }] },
      `conversion webhook for ${gvk} returned invalid converted object at index 0: must have the same name: a != b`,
    ],
    [
      "another uid",
      { uid: "x", result: success },
      /^conversion webhook for .* failed: expected response\.uid="[-\da-f]+", got "x"$/,
    ],
  ])("fails with kube-apiserver's message if the webhook returns %s", async (_what, response, message) => {
    await send("POST", path("v1"), server("a"));
    webhook.on("/convert", () => response as unknown as JsonObject);
    const { code, body } = await send("GET", `${path("v2")}/a`);
    expect(code).toBe(500);
    expect(body["message"]).toEqual(typeof message === "string" ? message : expect.stringMatching(message));
    expect(body["reason"]).toBeUndefined();
    expect((await send("GET", `${path("v1")}/a`)).code).toBe(200);
  });

  it("fails if the webhook cannot be reached, including for writes, and ends watches with an error", async () => {
    await send("POST", path("v1"), server("a"));
    const url = [{ op: "replace", path: "/spec/conversion/webhook/clientConfig/url", value: "https://127.0.0.1:1/convert" }];
    expect((await send("PATCH", crdPath, url, "operations")).code).toBe(200);
    const why = `conversion webhook for ${gvk} failed: Post "https://127.0.0.1:1/convert?timeout=30s": dial tcp 127.0.0.1:1: connect: connection refused`;
    expect((await send("GET", `${path("v2")}/a`)).body["message"]).toBe(why);
    expect((await send("PATCH", `${path("v2")}/a`, { spec: { port: "1" } }, "merge")).body["message"]).toBe(why);
    const watch = await client().watch(serverType("v2"), { namespace: "default" });
    const { value } = await watch[Symbol.asyncIterator]().next();
    expect(value).toMatchObject({ type: "ERROR", object: { code: 500, message: why } });
  });

  it("records storage versions, and an update that changes nothing migrates an object to the new one", async () => {
    await send("POST", path("v1"), server("a"));
    await store("v2");
    expect((await send("GET", crdPath)).body["status"].storedVersions).toEqual(["v1", "v2"]);
    const { body } = await send("GET", `${path("v2")}/a`);
    const updated = await send("PUT", `${path("v2")}/a`, body);
    expect(updated.body["metadata"].resourceVersion).not.toBe(body["metadata"].resourceVersion);
    const stored = environment.store.get("stable.example.com/servers/default/a")?.object;
    expect(stored?.apiVersion).toBe("stable.example.com/v2");
    const drop = { status: { storedVersions: ["v2"] } };
    expect((await send("PATCH", `${crdPath}/status`, drop, "merge")).body["status"].storedVersions).toEqual(["v2"]);
  });
});

describe("the validation of spec.conversion", () => {
  const conversion = (webhookField: JsonObject | undefined, strategy = "Webhook"): Promise<TestResponse> => {
    const crd = endpointsCrd("v1") as unknown as { spec: JsonObject };
    crd.spec["conversion"] = { strategy, ...(webhookField === undefined ? {} : { webhook: webhookField }) };
    return send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd);
  };

  it.each([
    [
      undefined,
      [
        "spec.conversion.conversionReviewVersions: Required value",
        "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
      ],
    ],
    [
      { clientConfig: {}, conversionReviewVersions: ["v1"] },
      ["spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"],
    ],
    [
      { clientConfig: { url: "http://a/b?c#d" }, conversionReviewVersions: ["v9"] },
      [
        'spec.conversion.conversionReviewVersions: Invalid value: ["v9"]: must include at least one of v1, v1beta1',
        'spec.conversion.webhookClientConfig.url: Invalid value: "c": query parameters are not permitted in the URL',
        'spec.conversion.webhookClientConfig.url: Invalid value: "d": fragments are not permitted in the URL',
        "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
      ],
    ],
    [
      { clientConfig: { url: "https://a", caBundle: "eA==" }, conversionReviewVersions: ["v1"] },
      [
        'spec.conversion.webhookClientConfig.caBundle: Invalid value: "eA==": unable to load root certificates: unable to parse bytes as PEM block',
      ],
    ],
  ])("rejects %j", async (webhookField, expected) => {
    const { code, body } = await conversion(webhookField as JsonObject | undefined);
    expect(code).toBe(422);
    const causes = body["details"].causes as { field: string; message: string }[];
    expect(causes.map(({ field, message }) => `${field}: ${message}`).sort()).toEqual(expected);
  });

  it("defaults the port of a Service", async () => {
    const value = { service: { namespace: "default", name: "convert" } };
    const operations = [{ op: "replace", path: "/spec/conversion/webhook/clientConfig", value }];
    const { body } = await send("PATCH", crdPath, operations, "operations");
    expect(body["spec"].conversion.webhook.clientConfig.service).toEqual({ ...value.service, port: 443 });
  });
});
