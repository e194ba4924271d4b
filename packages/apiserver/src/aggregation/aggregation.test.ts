import { mkdtemp, readFile, rm } from "node:fs/promises";
import { once } from "node:events";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isJsonObject, type JsonObject } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { systemRandom } from "../endpoints/random-source.ts";
import { listAt, textAt, valueAt } from "../registry/object-fields.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import { serveApi } from "../serving/serve-api.ts";
import type { ServedApi } from "../serving/serve-options.ts";
import { systemUser } from "../system-user.ts";
import { type Answer, type ApiConnection, connectApi } from "../testing/conformance/api-connection.ts";
import { availability } from "./api-service.ts";
import { type ExtensionServer, type ReceivedRequest, startExtensionServer } from "./testing/extension-server.ts";

const token = "token-of-the-administrator";
/** An address of the embedded node's Pod network. */
const podIp = "127.90.0.2";
const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices";
const flunders = "/apis/wardle.example.com/v1/namespaces/default/flunders";
const aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
let dataDir: string;
let authority: string;
let api: ServedApi;
let connection: ApiConnection;
let extension: ExtensionServer;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "keelson-aggregation-"));
  const users: readonly (readonly [string, UserInfo])[] = [
    [token, { username: "admin", uid: "uid-of-admin", groups: ["system:masters"], extra: { "example.com/Team": ["a"] } }],
    ["token-of-an-ordinary-user", { username: "jane", groups: ["dev"] }],
  ];
  api = await serveApi({
    dataDir,
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { sync: false },
    staticTokens: new Map(users),
  });
  authority = await readFile(join(dataDir, "pki", "ca.crt"), "utf8");
  connection = connectApi(api.url, authority);
  extension = await startExtensionServer(podIp, "wardle", await readFile(join(dataDir, "pki", "front-proxy-ca.crt"), "utf8"));
  await createService("wardle", podIp);
  await write("POST", apiServices, apiService("v1.wardle.example.com", { caBundle: extension.caBundle }));
  await becomes("v1.wardle.example.com", "Passed");
});
afterAll(async () => {
  connection.close();
  await api.close();
  await extension.close();
  await rm(dataDir, { recursive: true, force: true });
});
beforeEach(() => {
  extension.status = undefined;
  extension.documentLocation = undefined;
});

function apiService(name: string, spec: object, service = { namespace: "default", name: "wardle", port: 443 }): object {
  const [version = "", ...group] = name.split(".");
  return {
    apiVersion: "apiregistration.k8s.io/v1",
    kind: "APIService",
    metadata: { name },
    spec: { group: group.join("."), version, groupPriorityMinimum: 2000, versionPriority: 15, service, ...spec },
  };
}

async function createService(name: string, address: string | undefined): Promise<void> {
  const metadata = { name, namespace: "default" };
  const spec = { ports: [{ name: "https", port: 443 }] };
  await write("POST", "/api/v1/namespaces/default/services", { apiVersion: "v1", kind: "Service", metadata, spec });
  if (address === undefined) return;
  await write("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-1`, namespace: "default", labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: "https", port: extension.port, protocol: "TCP" }],
  });
}

async function write(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<void> {
  const headers = { "content-type": method === "PATCH" ? "application/merge-patch+json" : "application/json" };
  const outcome = await api.server.handle({ method, path, headers, user: systemUser, ...(body === undefined ? {} : { body }) });
  if (outcome.kind === "status" && outcome.status.status !== "Success") throw new TypeError(JSON.stringify(outcome.status));
}

/** Resolves with the `Available` condition of an APIService once it has this reason. */
function becomes(name: string, reason: string): Promise<JsonObject> {
  const { store } = api.server;
  const key = `apiregistration.k8s.io/apiservices//${name}`;
  return new Promise((resolve) => {
    const check = (): void => {
      const condition = availability(store.get(key)?.object);
      if (condition?.["reason"] !== reason) return;
      watch.close();
      resolve(condition);
    };
    const watch = store.watch(key, store.revision, check);
    check();
  });
}

function send(
  method: string,
  target: string,
  options: { body?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, ...options.headers };
  return connection.send({ method, target, headers, ...(options.body === undefined ? {} : { body: options.body }) });
}

const lastRequest = (): ReceivedRequest | undefined => extension.requests.findLast(({ url }) => url.includes("flunders"));

describe("a request of an extension API server's group", () => {
  it("is passed on with path, query and body, in the name of its sender", async () => {
    const { status, body } = await send("POST", `${flunders}?dryRun=All&x=%2F`, {
      body: '{"kind":"Flunder"}',
      headers: {
        "content-type": "application/json",
        "x-remote-user": "root",
        "x-remote-uid": "uid-of-root",
        "x-remote-extra-a": "b",
        "x-remote-group": "all",
      },
    });
    expect([status, valueAt(body, "kind")]).toEqual([201, "Flunder"]);
    const { method, url, headers, body: sent } = lastRequest() ?? { headers: {} };
    expect({ method, url, sent }).toEqual({ method: "POST", url: `${flunders}?dryRun=All&x=%2F`, sent: '{"kind":"Flunder"}' });
    expect(headers).toMatchObject({
      "x-remote-user": "admin",
      "x-remote-uid": "uid-of-admin",
      "x-remote-group": "system:masters, system:authenticated",
      "x-remote-extra-example.com%2fteam": "a",
    });
    expect(headers).not.toHaveProperty("authorization");
    expect(headers).not.toHaveProperty("x-remote-extra-a");
  });

  it("is served as the impersonated user", async () => {
    await send("GET", flunders, { headers: { "impersonate-user": "root", "impersonate-group": "system:masters" } });
    expect(lastRequest()?.headers).toMatchObject({
      "x-remote-user": "root",
      "x-remote-group": "system:masters, system:authenticated",
    });
    expect(lastRequest()?.headers).not.toHaveProperty("impersonate-user");
  });

  it("needs the permissions of its sender", async () => {
    const before = extension.requests.length;
    const { status, body } = await send("GET", flunders, { headers: { authorization: "Bearer token-of-an-ordinary-user" } });
    expect([status, textAt(body, "message")]).toEqual([
      403,
      'flunders.wardle.example.com is forbidden: User "jane" cannot list resource "flunders" in API group "wardle.example.com" in the namespace "default"',
    ]);
    expect(extension.requests.slice(before).filter(({ url }) => url.includes("flunders"))).toEqual([]);
  });

  it("may be a watch", async () => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await connection.open({ method: "GET", target: `${flunders}?watch=1`, headers });
    const [event] = (await once(response, "data")) as [Buffer];
    expect(JSON.parse(event.toString())).toMatchObject({ type: "ADDED", object: { kind: "Flunder" } });
    response.destroy();
  });

  it("may switch protocols", async () => {
    const request = httpsRequest(`${api.url}${flunders}/a/exec?command=a&command=b`, {
      ca: authority,
      agent: false,
      headers: { authorization: `Bearer ${token}`, connection: "Upgrade", upgrade: "echo", "x-remote-user": "root" },
    });
    request.end();
    const [, socket] = (await once(request, "upgrade")) as [unknown, Socket];
    socket.write("ping");
    expect(String((await once(socket, "data"))[0])).toBe("ping");
    socket.destroy();
    expect(lastRequest()).toMatchObject({
      url: `${flunders}/a/exec?command=a&command=b`,
      headers: { "x-remote-user": "admin" },
    });
  });

  it("is not redirected to another server", async () => {
    const { status, body } = await send("GET", "/apis/wardle.example.com/v1/moved");
    expect([status, body]).toEqual([502, "the backend attempted to redirect this request, which is not permitted\n"]);
  });
});

describe("discovery", () => {
  it("lists the group by its priority, and leads to its resources", async () => {
    const groups = listAt((await send("GET", "/apis")).body, "groups").map((group) => textAt(group, "name"));
    expect(groups.indexOf("wardle.example.com")).toBe(groups.length - 1);
    expect(groups[0]).toBe("apiregistration.k8s.io");
    const { body } = await send("GET", "/apis/wardle.example.com");
    expect(body).toMatchObject({ kind: "APIGroup", preferredVersion: { groupVersion: "wardle.example.com/v1" } });
    expect((await send("GET", "/apis/wardle.example.com/v1")).body).toMatchObject({ kind: "APIResourceList" });
  });

  it("has the resources in aggregated form, converted if the server does not have it", async () => {
    const { body } = await send("GET", "/apis", { headers: { accept: aggregatedType } });
    const item = listAt(body, "items").find((each) => textAt(each, "metadata", "name") === "wardle.example.com");
    const kind = { group: "wardle.example.com", version: "v1", kind: "Flunder" };
    expect(valueAt(item, "versions")).toEqual([
      {
        version: "v1",
        freshness: "Current",
        resources: [
          {
            ...{ resource: "flunders", responseKind: kind, scope: "Namespaced", singularResource: "flunder" },
            verbs: ["get", "list", "watch"],
            subresources: [{ subresource: "status", responseKind: kind, verbs: ["update"] }],
          },
        ],
      },
    ]);
  });

  it("has the OpenAPI documents", async () => {
    const index = (await send("GET", "/openapi/v3")).body;
    const url = textAt(index, "paths", "apis/wardle.example.com/v1", "serverRelativeURL");
    expect(url).toBe("/openapi/v3/apis/wardle.example.com/v1?hash=1");
    expect((await send("GET", url)).body).toMatchObject({ openapi: "3.0.0" });
    extension.documentLocation = "/openapi/v3/apis/wardle.example.com/v1?hash=2";
    expect(await send("GET", url)).toMatchObject({ status: 301, headers: { location: extension.documentLocation } });
    for (const location of [
      "//other.example.com/x",
      "/\\other.example.com/x",
      "/\t/other.example.com/x",
      "https://other.example.com/x",
    ]) {
      extension.documentLocation = location;
      expect(await send("GET", url)).toMatchObject({ status: 502 });
    }
    const v2 = (await send("GET", "/openapi/v2", { headers: { accept: "application/json" } })).body;
    const paths = Object.keys(Object(valueAt(v2, "paths")));
    expect(paths).toContain("/apis/wardle.example.com/v1/flunders");
    expect(paths).not.toContain("/apis/other/v1/");
    expect(paths).toContain("/api/v1/pods");
    expect(valueAt(v2, "definitions", "Flunder")).toEqual({});
  });
});

describe("an APIService", () => {
  it("exists for each group version of the server and of its CustomResourceDefinitions", async () => {
    const local = { status: { conditions: [{ type: "Available", status: "True", reason: "Local" }] } };
    expect((await send("GET", `${apiServices}/v1.`)).body).toMatchObject({
      spec: { version: "v1", groupPriorityMinimum: 18000, versionPriority: 1 },
      ...local,
    });
    expect((await send("GET", `${apiServices}/v1.apps`)).body).toMatchObject({
      metadata: { labels: { "kube-aggregator.kubernetes.io/automanaged": "onstart" } },
      ...local,
    });
    const names = { kind: "Widget", plural: "widgets" };
    const schema = { openAPIV3Schema: { type: "object" } };
    const spec = {
      group: "example.org",
      scope: "Cluster",
      names,
      versions: [{ name: "v2", served: true, storage: true, schema }],
    };
    const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const metadata = { name: "widgets.example.org" };
    await write("POST", crds, { apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata, spec });
    await becomes("v2.example.org", "Local");
    expect((await send("GET", `${apiServices}/v2.example.org`)).body).toMatchObject({
      metadata: { labels: { "kube-aggregator.kubernetes.io/automanaged": "true" } },
      spec: { groupPriorityMinimum: 1000, versionPriority: 100 },
    });
    const { store } = api.server;
    const deleted = new Promise<void>((resolve) => {
      const watch = store.watch("apiregistration.k8s.io/apiservices//v2.example.org", store.revision, ([event]) => {
        if (event?.type !== "delete") return;
        watch.close();
        resolve();
      });
    });
    await write("DELETE", `${crds}/widgets.example.org`);
    await deleted;
  });

  it("is shown with its Service and whether it is available", async () => {
    const headers = { accept: "application/json;as=Table;v=v1;g=meta.k8s.io" };
    const { body } = await send("GET", `${apiServices}/v1.wardle.example.com`, { headers });
    expect(listAt(body, "columnDefinitions").map((column) => textAt(column, "name"))).toEqual([
      "Name",
      "Service",
      "Available",
      "Age",
    ]);
    expect(listAt(body, "rows", 0, "cells").slice(0, 3)).toEqual(["v1.wardle.example.com", "default/wardle", "True"]);
  });

  it("says why its server is not available, and requests get 503", async () => {
    const broken: readonly (readonly [string, string | undefined, number, string, string])[] = [
      ["none", undefined, 443, "ServiceNotFound", 'service/none in "default" is not present'],
      ["empty", undefined, 444, "ServicePortError", 'service/empty in "default" is not listening on port 444'],
      ["empty", undefined, 443, "EndpointsNotFound", 'cannot find endpointslices for service/empty in "default"'],
      ["forged", "127.0.0.1", 443, "FailedDiscoveryCheck", "address not allowed"],
      ["wardle", undefined, 443, "FailedDiscoveryCheck", "x509"],
    ];
    await createService("empty", undefined);
    await createService("forged", "127.0.0.1");
    for (const [index, [name, , port, reason, message]] of broken.entries()) {
      const full = `v${index + 1}.broken.example.com`;
      await write("POST", apiServices, apiService(full, {}, { namespace: "default", name, port }));
      const condition = await becomes(full, reason);
      expect(condition["message"]).toContain(message);
      const { status, headers, body } = await send("GET", `/apis/broken.example.com/v${index + 1}/things`);
      expect([status, headers["content-type"], body]).toEqual([503, "text/plain; charset=utf-8", "service unavailable\n"]);
    }
    const { body } = await send("GET", "/apis", { headers: { accept: aggregatedType } });
    const item = listAt(body, "items").find((each) => textAt(each, "metadata", "name") === "broken.example.com");
    expect(listAt(item, "versions").map((version) => textAt(version, "freshness"))).toEqual(broken.map(() => "Stale"));
  });

  it("becomes unavailable when its endpoints are removed, and available again with them", async () => {
    const slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/wardle-1";
    await write("PATCH", slice, { endpoints: [{ addresses: [podIp], conditions: { ready: false } }] });
    const condition = await becomes("v1.wardle.example.com", "MissingEndpoints");
    expect(condition["message"]).toBe(
      'endpointslices for service/wardle in "default" have no addresses with port name "https"',
    );
    expect((await send("GET", flunders)).status).toBe(503);
    await write("PATCH", slice, { endpoints: [{ addresses: [podIp], conditions: { ready: true } }] });
    await becomes("v1.wardle.example.com", "Passed");
    expect((await send("GET", flunders)).status).toBe(200);
  });

  it.each([
    [{ versionPriority: 0 }, "spec.versionPriority: Invalid value: 0: must be positive and less than 1000"],
    [{ caBundle: "eA==", insecureSkipTLSVerify: true }, "may not be true if caBundle is present"],
    [
      { version: "v3" },
      'metadata.name: Invalid value: "v1.x.example.com": must be `spec.version+"."+spec.group`: "v3.x.example.com"',
    ],
    [{ service: undefined, caBundle: "eA==" }, "local APIServices may not have a caBundle"],
  ])("is invalid with %j", async (spec, message) => {
    const body = JSON.stringify(apiService("v1.x.example.com", spec));
    const answer = await send("POST", apiServices, { body, headers: { "content-type": "application/json" } });
    expect(answer.status).toBe(422);
    expect(textAt(answer.body, "message")).toContain(message);
  });
});

it("publishes the authorities that extension API servers trust", async () => {
  const { body } = await send("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
  const data = isJsonObject(body) ? body["data"] : undefined;
  expect(data).toMatchObject({
    "client-ca-file": authority,
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-client-ca-file": await readFile(join(dataDir, "pki", "front-proxy-ca.crt"), "utf8"),
    "requestheader-username-headers": '["X-Remote-User"]',
  });
});
