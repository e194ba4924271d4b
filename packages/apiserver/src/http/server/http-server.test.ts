import { randomUUID, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Agent, request as httpsRequest } from "node:https";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { gunzipSync } from "node:zlib";
import { type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createAuthenticator } from "../../auth/authentication/authenticator.ts";
import { issueCertificate } from "@keelson/api-machinery/certificates";
import { ensurePki, issueClientCertificate, type Pki } from "../../auth/certificates/pki.ts";
import type { EncodedObject, Handle, PipelineRequest, WatchSink } from "../../endpoints/outcome.ts";
import type { UserInfo } from "../../registry/served-resource.ts";
import { configMaps } from "../../testing/config-maps.ts";
import { startTestEnvironment } from "../../testing/test-environment.ts";
import { startHttpServer } from "./http-server.ts";
import type { HttpServer, HttpServerOptions } from "./http-server-options.ts";

interface Gate<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
}

/** A promise that a test resolves from outside (`Promise.withResolvers` needs Node 22). */
function gate<T>(): Gate<T> {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((given) => {
    resolve = given;
  });
  return { promise, resolve };
}

let directory: string;
let pki: Pki;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-http-"));
  pki = await ensurePki(directory, Date.now());
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const typePrefix = '{"apiVersion":"v1","kind":"ConfigMap",';

function configMap(name: string, data: Record<string, string> = {}, version = "7"): EncodedObject {
  const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, resourceVersion: version }, data };
  return { bytes: Buffer.from(JSON.stringify(object)), object };
}

const collection = "/api/v1/namespaces/default/configmaps";
const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io";

async function start(handle: Handle, options: Partial<HttpServerOptions> = {}): Promise<HttpServer> {
  const server = await startHttpServer({
    // The pipeline reads the body after authorization.
    handle: async (request) => {
      await request.receive?.(true);
      return handle(request);
    },
    authenticate: createAuthenticator({
      tokens: [(token) => (token === "good" ? { username: "tokenuser", groups: [] } : undefined)],
      authorizer: { authorize: (user) => ({ allowed: user.username === "tokenuser", reason: "" }) },
      now: () => Date.now(),
      anonymous: false,
    }),
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    toTable: (_, objects, { includeObject }) => ({
      columnDefinitions: [{ name: "Name" }],
      rows: objects.map((object) => ({ cells: [object.metadata.name], object: includeObject })),
    }),
    port: 0,
    clock: systemClock,
    newId: randomUUID,
    ...options,
  });
  cleanups.push(() => server.close());
  return server;
}

/** Receives the body as for a custom resource. */
function receiveCustom(handle: Handle): Handle {
  return async (request) => {
    await request.receive?.(false);
    return handle(request);
  };
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly bytes: Buffer;
  readonly text: string;
  readonly json: { readonly [key: string]: unknown };
}

interface RequestOptions {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
  readonly token?: string | undefined;
  readonly certificate?: { certificate: string; key: string };
  readonly agent?: Agent;
}

function open(
  server: HttpServer,
  path: string,
  options: RequestOptions = {},
): { request: ClientRequest; response: Promise<IncomingMessage> } {
  const token = "token" in options || options.certificate ? options.token : "good";
  const request = httpsRequest(`${server.url}${path}`, {
    method: options.method ?? "GET",
    ca: pki.authority.certificate,
    agent: options.agent ?? false,
    headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...options.headers },
    ...(options.certificate ? { cert: options.certificate.certificate, key: options.certificate.key } : {}),
  });
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    request.on("response", resolve);
    request.on("error", reject);
  });
  request.end(options.body);
  return { request, response };
}

async function send(server: HttpServer, path: string, how: RequestOptions = {}): Promise<Reply> {
  const response = await open(server, path, how).response;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  const text = bytes.toString();
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    bytes,
    text,
    get json() {
      return JSON.parse(text) as { [key: string]: unknown };
    },
  };
}

const respondWithObject: Handle = async () => ({
  kind: "object",
  status: 200,
  object: configMap("a"),
  resource: configMaps,
  subresource: "",
});
const respondWithList: Handle = async () => ({
  kind: "list",
  items: [configMap("a"), configMap("b", { k: "ü" })],
  listMeta: { resourceVersion: "9" },
  resource: configMaps,
  itemSkip: typePrefix.length,
});

/** Keeps what reached the pipeline. */
function recorder(): { handle: Handle; requests: PipelineRequest[] } {
  const requests: PipelineRequest[] = [];
  return {
    requests,
    handle: async (request) => {
      requests.push(request);
      return respondWithObject(request);
    },
  };
}

describe("a request", () => {
  test("reaches the pipeline with path, query, headers and user, but without its credentials", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    await send(server, `${collection}/a%2Fb?x=1&x=2&watch=&__proto__=p`, {
      headers: { "user-agent": "kubectl/v1", "x-thing": "y" },
    });
    const [request] = requests;
    expect(request?.method).toBe("GET");
    expect(request?.path).toBe(`${collection}/a%2Fb`);
    expect(new Map(Object.entries(request?.query ?? {}))).toEqual(
      new Map([
        ["x", "1"],
        ["watch", ""],
        ["__proto__", "p"],
      ]),
    );
    expect(request?.user).toEqual({ username: "tokenuser", groups: ["system:authenticated"] });
    expect(request?.userAgent).toBe("kubectl/v1");
    expect(request?.headers?.["x-thing"]).toBe("y");
    expect(request?.headers?.["authorization"]).toBeUndefined();
    expect(request && "body" in request).toBe(false);
  });

  test.each<[string, RequestOptions]>([
    ["nothing", { token: undefined }],
    ["a wrong token", { token: "bad" }],
    ["another scheme", { token: undefined, headers: { authorization: "Basic Z29vZDpnb29k" } }],
  ])("with %s is rejected with a Status before its body is read", async (_, how) => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const reply = await send(server, collection, { ...how, method: "POST", body: "{" });
    expect(reply.status).toBe(401);
    expect(reply.json).toEqual({
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: "Unauthorized",
      reason: "Unauthorized",
      code: 401,
    });
    expect(requests).toEqual([]);
  });

  test("is authenticated by its client certificate, including on a resumed TLS session", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const certificate = await issueClientCertificate(pki, { name: "jane", groups: ["dev", "ops"] }, Date.now());
    const agent = new Agent({ maxCachedSessions: 10 });
    const reused: boolean[] = [];
    for (let round = 0; round < 3; round++) {
      const { request, response } = open(server, collection, { certificate, agent, headers: { connection: "close" } });
      request.on("socket", (socket: TLSSocket) => socket.on("secureConnect", () => reused.push(socket.isSessionReused())));
      (await response).resume();
    }
    expect(reused).toContain(true);
    expect(requests.map(({ user }) => user)).toEqual(
      Array.from({ length: 3 }, () => ({ username: "jane", groups: ["dev", "ops", "system:authenticated"] })),
    );
  });

  test("is not authenticated by a certificate of another authority, with another usage, or that is expired", async () => {
    const server = await start(respondWithObject);
    const other = await ensurePki(join(directory, "other"), Date.now());
    const stranger = await issueClientCertificate(other, { name: "jane", groups: ["system:masters"] }, Date.now());
    const expired = await issueClientCertificate(pki, { name: "jane" }, Date.now() - 400 * 24 * 60 * 60 * 1000);
    for (const certificate of [stranger, pki.server, expired]) {
      expect((await send(server, collection, { certificate })).status).toBe(401);
      expect((await send(server, collection, { certificate, token: "good" })).status).toBe(200);
    }
  });

  test("impersonates another user if authorized", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const headers = { "impersonate-user": "bob", "impersonate-group": ["a, b", "c"], "impersonate-extra-scope%2Fx": "y" };
    await send(server, collection, { headers });
    expect(requests[0]?.user).toEqual({
      username: "bob",
      groups: ["a, b", "c", "system:authenticated"],
      extra: { "scope/x": ["y"] },
    });
    expect(Object.keys(requests[0]?.headers ?? {}).filter((name) => name.startsWith("impersonate"))).toEqual([]);
    const certificate = await issueClientCertificate(pki, { name: "jane" }, Date.now());
    const refused = await send(server, collection, { certificate, headers });
    expect(refused.status).toBe(403);
    expect(refused.json["message"]).toBe(
      'users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope',
    );
    expect((await send(server, collection, { headers: { "impersonate-group": "x" } })).status).toBe(400);
  });
});

describe("a body", () => {
  const put = (type: string, body: string | Uint8Array): RequestOptions => ({
    method: "PUT",
    headers: { "content-type": type },
    body,
  });

  test.each([
    ["application/json", '{"a":{"b":[1,"ü"]}}'],
    ["application/json; charset=utf-8", '{"a":{"b":[1,"ü"]}}'],
    ["application/yaml", "a:\n  b:\n    - 1\n    - ü\n"],
    ["application/yaml", '{"a":{"b":[1,"ü"]}}'],
    ["application/yaml", "{a: {b: [1, ü]}}"],
  ])("of %s is parsed: %s", async (type, body) => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    expect((await send(server, collection, put(type, body))).status).toBe(200);
    expect(requests[0]?.body).toEqual({ a: { b: [1, "ü"] } });
    expect(requests[0]?.bodyBytes).toBe(Buffer.byteLength(body));
  });

  test("of an apply patch is YAML; unknown patch types are rejected", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const patch = (type: string): Promise<Reply> => send(server, collection, { ...put(type, "a: b"), method: "PATCH" });
    expect((await patch("application/apply-patch+yaml")).status).toBe(200);
    expect(requests[0]?.body).toEqual({ a: "b" });
    const others = ["application/json", "application/yaml", "text/plain"];
    expect(await Promise.all(others.map(async (type) => (await patch(type)).status))).toEqual([415, 415, 415]);
  });

  test.each([
    ["an unknown type", "text/plain", "x", 415, "UnsupportedMediaType"],
    ["a parameter without a value", "application/json;a", "{}", 415, "UnsupportedMediaType"],
    ["protobuf without a kind", "application/vnd.kubernetes.protobuf", "k8s\0", 415, "UnsupportedMediaType"],
    ["JSON declared as protobuf", "application/vnd.kubernetes.protobuf", "{}", 400, "BadRequest"],
    ["broken JSON", "application/json", '{"a":', 400, "BadRequest"],
    ["broken YAML", "application/yaml", "a: b: c", 400, "BadRequest"],
    [
      "an alias bomb",
      "application/yaml",
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${"bcdefgh".replace(/./g, (c, i: number) => `${c}: &${c} [${`*${"abcdefg"[i]},`.repeat(10)}]\n`)}`,
      400,
      "BadRequest",
    ],
    ["a number that JSON cannot express", "application/yaml", "a: .inf", 400, "BadRequest"],
    ["deep nesting", "application/json", "[".repeat(100_000) + "]".repeat(100_000), 400, "BadRequest"],
    ["deep YAML", "application/yaml", "[".repeat(5_000) + "]".repeat(5_000), 400, "BadRequest"],
    ["no UTF-8", "application/json", Buffer.from([0x22, 0xff, 0x22]), 400, "BadRequest"],
    ["too many bytes", "application/json", `"${"x".repeat(3 * 1024 * 1024)}"`, 413, "RequestEntityTooLarge"],
  ])("of %s is rejected and not handled", async (_, type, body, status, reason) => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const reply = await send(server, collection, put(type, body));
    expect([reply.status, reply.json["reason"], reply.json["kind"]]).toEqual([status, reason, "Status"]);
    expect(requests).toEqual([]);
  });

  test("without a content length is rejected at the limit", async () => {
    const server = await start(respondWithObject);
    const request = httpsRequest(`${server.url}${collection}`, {
      method: "POST",
      ca: pki.authority.certificate,
      agent: false,
      headers: { authorization: "Bearer good", "transfer-encoding": "chunked" },
    });
    request.on("error", () => undefined);
    const response = new Promise<IncomingMessage>((resolve) => request.on("response", resolve));
    const megabyte = Buffer.alloc(1024 * 1024, "x");
    for (let sent = 0; sent < 4; sent++) request.write(megabyte);
    expect((await response).statusCode).toBe(413);
    request.destroy();
  });

  test.each(["application/json", "application/yaml"])("with __proto__ keys in %s does not change a prototype", async (type) => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    await send(server, collection, put(type, '{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 2}}}'));
    const body = requests[0]?.body as object;
    expect(Object.keys(body)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  test("reports duplicate fields", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    const body = '{"a":[{"b":1},{"b":{"x":":","x":"{\\""},"b":2}],"c\\"":1,"c\\"":2}';
    await send(server, collection, put("application/json", body));
    expect(requests[0]?.duplicateFields).toEqual(["a[1].b.x", "a[1].b", 'c"']);
    expect(requests[0]?.fieldPositions?.get("a[1].b")).toBe(body.indexOf('"b":2'));
    await send(server, collection, put("application/json", '{"a":"x:y\\\\","b":{"a":[{"a":1},{"a":2}]}}'));
    expect(requests[1]?.duplicateFields).toEqual([]);
  });
});

describe("a response", () => {
  test("with an object is its stored bytes, with the common headers", async () => {
    const server = await start(respondWithObject);
    const reply = await send(server, `${collection}/a`, { headers: { "audit-id": "my-id" } });
    expect(reply.status).toBe(200);
    expect(reply.bytes.equals(Buffer.from(configMap("a").bytes))).toBe(true);
    expect(reply.headers).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-cache, private",
      "audit-id": "my-id",
    });
    expect((await send(server, `${collection}/a`)).headers["audit-id"]).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("with a list joins the bytes of its items without their type", async () => {
    const server = await start(respondWithList);
    expect((await send(server, collection)).json).toEqual({
      kind: "ConfigMapList",
      apiVersion: "v1",
      metadata: { resourceVersion: "9" },
      items: [
        { metadata: { name: "a", resourceVersion: "7" }, data: {} },
        { metadata: { name: "b", resourceVersion: "7" }, data: { k: "ü" } },
      ],
    });
  });

  test.each([0, typePrefix.length])(
    "with a long list is whole, and compressed where that is taken (skip %d)",
    async (itemSkip) => {
      const items = Array.from({ length: 500 }, (_, index) => configMap(`n${index}`, { v: "é".repeat((index * 37) % 900) }));
      items.push(configMap("big", { v: "z".repeat(200_000) }), configMap("last"));
      const server = await start(async () => ({ kind: "list", items, listMeta: {}, resource: configMaps, itemSkip }));
      const plain = await send(server, collection);
      expect(plain.headers["content-length"]).toBe(String(plain.bytes.length));
      expect((plain.json["items"] as KubernetesObject[]).map(({ metadata }) => metadata.name)).toEqual(
        items.map(({ object }) => object.metadata.name),
      );
      expect((plain.json["items"] as object[]).every((item) => "kind" in item === (itemSkip === 0))).toBe(true);
      const compressed = await send(server, collection, { headers: { "accept-encoding": "gzip" } });
      expect(compressed.headers["content-encoding"]).toBe("gzip");
      expect(gunzipSync(compressed.bytes).equals(plain.bytes)).toBe(true);
      expect(
        (await send(server, collection, { headers: { "accept-encoding": "gzip;q=0, br" } })).headers["content-encoding"],
      ).toBeUndefined();
    },
  );

  test.each([
    ["application/json"],
    ["*/*"],
    ["application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io, application/json"],
    ["application/vnd.kubernetes.protobuf;q=0.8,application/json"],
    ["text/html, application/json;q=0.9"],
    // kube-apiserver ranks media types by quality and excludes none.
    ["application/json;q=0"],
    ["application/json;as=Table;v=v9;g=meta.k8s.io, application/json"],
  ])("is JSON for Accept: %s", async (accept) => {
    const server = await start(respondWithObject);
    const reply = await send(server, `${collection}/a`, { headers: { accept } });
    expect([reply.headers["content-type"], reply.json["kind"]]).toEqual(["application/json", "ConfigMap"]);
  });

  test.each([
    ["text/plain"],
    ["application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"],
    ["application/json;as=Chart;v=v1;g=meta.k8s.io"],
    ["application/json;as=Table;v=v9;g=meta.k8s.io"],
    ["application/json;as=Table"],
    ["application/*"],
  ])("is 406 for Accept: %s, before the request is handled", async (accept) => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    for (const method of ["GET", "POST"]) {
      const reply = await send(server, collection, { method, headers: { accept } });
      expect([reply.status, reply.json["reason"]]).toEqual([406, "NotAcceptable"]);
    }
    expect(requests).toEqual([]);
  });

  test("is YAML if the client prefers it, including failures", async () => {
    const server = await start(async ({ path }) =>
      path.endsWith("/none")
        ? { kind: "status", status: statusError("NotFound", "no").status }
        : respondWithList({} as PipelineRequest),
    );
    const accept = "application/json;q=0.5, application/yaml";
    const reply = await send(server, collection, { headers: { accept } });
    expect(reply.headers["content-type"]).toBe("application/yaml");
    expect(reply.text).toContain("kind: ConfigMapList\n");
    expect(reply.text).toContain("k: ü");
    const failure = await send(server, `${collection}/none`, { headers: { accept } });
    expect([failure.status, failure.headers["content-type"]]).toEqual([404, "application/yaml"]);
  });

  test("is a Table for an object or a list, with the requested part of each object", async () => {
    const server = await start((request) =>
      request.path === collection ? respondWithList(request) : respondWithObject(request),
    );
    const headers = { accept: `${tableAccept},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json` };
    expect((await send(server, collection, { headers })).json).toEqual({
      kind: "Table",
      apiVersion: "meta.k8s.io/v1",
      metadata: { resourceVersion: "9" },
      columnDefinitions: [{ name: "Name" }],
      rows: [
        { cells: ["a"], object: "Metadata" },
        { cells: ["b"], object: "Metadata" },
      ],
    });
    const one = await send(server, `${collection}/a?includeObject=None`, {
      headers: { accept: tableAccept.replace("v1;", "v1beta1;") },
    });
    expect(one.json).toMatchObject({
      apiVersion: "meta.k8s.io/v1beta1",
      metadata: { resourceVersion: "7" },
      rows: [{ object: "None" }],
    });
    expect((await send(server, `${collection}?includeObject=Everything`, { headers })).status).toBe(400);
  });

  test("is metadata only; requesting a list form for an object fails", async () => {
    const server = await start((request) =>
      request.path === collection ? respondWithList(request) : respondWithObject(request),
    );
    const as = (kind: string): RequestOptions => ({ headers: { accept: `application/json;as=${kind};v=v1;g=meta.k8s.io` } });
    const metadata = {
      kind: "PartialObjectMetadata",
      apiVersion: "meta.k8s.io/v1",
      metadata: { name: "a", resourceVersion: "7" },
    };
    expect((await send(server, `${collection}/a`, as("PartialObjectMetadata"))).json).toEqual(metadata);
    expect((await send(server, collection, as("PartialObjectMetadataList"))).json).toMatchObject({
      kind: "PartialObjectMetadataList",
      metadata: { resourceVersion: "9" },
      items: [metadata, { metadata: { name: "b" } }],
    });
    expect((await send(server, collection, as("PartialObjectMetadata"))).status).toBe(406);
    expect((await send(server, `${collection}/a`, as("PartialObjectMetadataList"))).status).toBe(406);
  });

  test("is a Table for a Scale", async () => {
    const server = await start(async () => ({
      kind: "object",
      status: 200,
      object: configMap("a"),
      resource: configMaps,
      subresource: "scale",
    }));
    const reply = await send(server, `${collection}/a/scale`, { headers: { accept: `${tableAccept}, application/json` } });
    expect([reply.status, reply.json["kind"]]).toEqual([200, "Table"]);
  });

  test("of a failure is a Status regardless of the requested form", async () => {
    const server = await start(async () => ({
      kind: "status",
      status: statusError("NotFound", 'configmaps "x" not found').status,
    }));
    const reply = await send(server, `${collection}/x`, { headers: { accept: tableAccept } });
    expect([reply.status, reply.json["kind"], reply.headers["content-type"]]).toEqual([404, "Status", "application/json"]);
  });

  test("is indented for ?pretty and for curl", async () => {
    const server = await start(respondWithObject);
    expect((await send(server, `${collection}/a?pretty=true`)).text).toContain('\n  "kind"');
    const curl = { headers: { "user-agent": "curl/8.0" } };
    expect((await send(server, `${collection}/a`, curl)).text).toContain('\n  "kind"');
    expect((await send(server, `${collection}/a?pretty=false`, curl)).text).not.toContain("\n");
  });

  test("carries warnings as headers, with any characters", async () => {
    const outcome = await respondWithObject({} as PipelineRequest);
    const server = await start(
      async () =>
        ({ ...outcome, warnings: ['unknown field "spec.x"', "évil\r\nset-cookie: a=b \\"] }) as Awaited<ReturnType<Handle>>,
    );
    const reply = await send(server, `${collection}/a`);
    expect(reply.headers["warning"]).toBe(
      `299 - "unknown field \\"spec.x\\"", 299 - "${Buffer.from("évil", "utf8").toString("latin1")} set-cookie: a=b \\\\"`,
    );
    expect(reply.headers["set-cookie"]).toBeUndefined();
  });

  test("with a document is JSON for discovery media types, and 406 if only protobuf is accepted", async () => {
    const body = { kind: "APIGroupDiscoveryList" };
    const server = await start(async () => ({
      kind: "document",
      status: 200,
      headers: { "content-type": "application/json;g=x", etag: "e" },
      body,
    }));
    const forms = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (let round = 0; round < 2; round++) {
      const reply = await send(server, "/apis", { headers: { accept: forms } });
      expect([reply.status, reply.headers["content-type"], reply.headers.etag, reply.json]).toEqual([
        200,
        "application/json;g=x",
        "e",
        body,
      ]);
    }
    expect((await send(server, "/openapi/v2", { headers: { accept: "application/x+protobuf" } })).status).toBe(406);
  });

  test("to HEAD has headers only, and is 405 for a built-in kind", async () => {
    const { handle, requests } = recorder();
    const builtin = await start(handle);
    expect((await send(builtin, `${collection}/a`, { method: "HEAD" })).status).toBe(405);
    const server = await start(handle, { handle: receiveCustom(handle) });
    const reply = await send(server, `${collection}/a`, { method: "HEAD" });
    expect([reply.status, reply.bytes.length, reply.headers["content-length"]]).toEqual([
      200,
      0,
      String(configMap("a").bytes.length),
    ]);
    expect(requests[0]?.method).toBe("GET");
  });

  test("can be the plain text of a failure", async () => {
    const { status } = statusError("NotFound", "no");
    const server = await start(async () => ({ kind: "status", status, text: "404 page not found\n" }));
    const reply = await send(server, "/apis/none");
    expect([reply.status, reply.text]).toEqual([404, "404 page not found\n"]);
    expect(reply.headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" });
  });

  test("is JSON for Accept: application/* for a custom resource", async () => {
    const server = await start(respondWithObject, { handle: receiveCustom(respondWithObject) });
    expect((await send(server, `${collection}/a`, { headers: { accept: "application/*" } })).status).toBe(200);
  });

  test("reaches the pipeline with every value of a repeated dryRun", async () => {
    const { handle, requests } = recorder();
    const server = await start(handle);
    await send(server, `${collection}?dryRun=All&dryRun=x`);
    await send(server, `${collection}?dryRun=All`);
    expect(requests.map(({ repeatedDryRun }) => repeatedDryRun)).toEqual([["All", "x"], undefined]);
  });

  test("to a request that fails in the pipeline is 500 without the cause, which is logged", async () => {
    const errors: unknown[] = [];
    const server = await start(
      async () => {
        throw new TypeError("secret detail");
      },
      { onError: (error) => errors.push(error) },
    );
    const reply = await send(server, collection);
    expect([reply.status, reply.json["reason"]]).toEqual([500, "InternalError"]);
    expect(reply.text).not.toContain("secret");
    expect(errors.map(String)).toEqual(["TypeError: secret detail"]);
  });

  test("can be raw text, or a stream that ends when the client disconnects", async () => {
    const ended = gate<string>();
    const server = await start(async ({ path, signal }) => {
      if (path === "/healthz")
        return { kind: "raw", status: 200, headers: { "content-type": "text/plain; charset=utf-8" }, body: "ok" };
      async function* log(): AsyncGenerator<Uint8Array> {
        yield Buffer.from("line 1\n");
        await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
        ended.resolve("aborted");
      }
      return { kind: "raw", status: 200, headers: { "content-type": "text/plain" }, body: log() };
    });
    expect((await send(server, "/healthz", { headers: { accept: "text/html" } })).text).toBe("ok");
    const { request, response } = open(server, "/api/v1/namespaces/default/pods/p/log?follow=true");
    const stream = await response;
    const [first] = (await stream[Symbol.asyncIterator]().next()).value.toString().split("\n");
    expect(first).toBe("line 1");
    request.destroy();
    expect(await ended.promise).toBe("aborted");
  });
});

/** A pipeline whose watches the test drives. */
function watchable(): { handle: Handle; sink: () => Promise<WatchSink>; closed: Promise<void> } {
  const sink = gate<WatchSink>();
  const closed = gate<void>();
  return {
    handle: async () => ({
      kind: "watch",
      resource: configMaps,
      open: (given) => {
        sink.resolve(given);
        return { close: () => closed.resolve() };
      },
    }),
    sink: () => sink.promise,
    closed: closed.promise,
  };
}

async function lines(
  response: IncomingMessage,
  count: number,
): Promise<{ type: string; object: DeepReadonly<KubernetesObject> }[]> {
  let text = "";
  let found = 0;
  for await (const chunk of response) {
    const part = String(chunk);
    text += part;
    found += part.split("\n").length - 1;
    if (found >= count) break;
  }
  return text
    .split("\n")
    .slice(0, count)
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { type: string; object: KubernetesObject });
}

describe("a watch", () => {
  test("responds immediately and sends each event as a line", async () => {
    const { handle, sink } = watchable();
    const server = await start(handle);
    const response = await open(server, `${collection}?watch=true`, { headers: { accept: "application/json;stream=watch" } })
      .response;
    expect([response.statusCode, response.headers["content-type"], response.headers["transfer-encoding"]]).toEqual([
      200,
      "application/json",
      "chunked",
    ]);
    const a = configMap("a");
    (await sink()).events([
      { type: "ADDED", object: a },
      { type: "MODIFIED", object: configMap("a", { x: "é" }, "8") },
      { type: "DELETED", object: a },
      { type: "BOOKMARK", object: configMap("", {}, "12") },
      { type: "ERROR", status: statusError("Expired", "too old").status },
    ]);
    (await sink()).end();
    const events = await lines(response, 6);
    expect(events.map(({ type }) => type)).toEqual(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);
    expect(events[1]?.object).toMatchObject({ data: { x: "é" } });
    expect(events[4]?.object).toMatchObject({ kind: "Status", code: 410 });
  });

  test.each(["plain lines for an HTTP/1.0 client", "chunks after an earlier response on the connection"])(
    "comes in %s",
    async (what) => {
      const isOld = what.includes("1.0");
      const { handle, sink } = watchable();
      const isAnswered = gate<void>();
      const server = await start(async (request) => {
        if (request.query?.["watch"] === "1") return handle(request);
        await isAnswered.promise;
        return respondWithObject(request);
      });
      const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
      cleanups.push(() => socket.destroy());
      const line = `{"type":"ADDED","object":${Buffer.from(configMap("b").bytes).toString()}}\n`;
      const expected = isOld ? line : `${line.length.toString(16)}\r\n${line}\r\n`;
      const rest = "host: here\r\nauthorization: Bearer good\r\n\r\n";
      if (isOld) socket.write(`GET ${collection}?watch=1 HTTP/1.0\r\n${rest}`);
      else socket.write(`GET ${collection}/a HTTP/1.1\r\n${rest}GET ${collection}?watch=1 HTTP/1.1\r\n${rest}`);
      isAnswered.resolve();
      (await sink()).events([{ type: "ADDED", object: configMap("b") }]);
      let text = "";
      for await (const part of socket) {
        text += String(part);
        if (text.endsWith(expected)) break;
      }
      const answers = text.split("HTTP/1.1 200 OK\r\n").slice(1);
      expect(answers).toHaveLength(isOld ? 1 : 2);
      expect(answers.at(-1)?.split("\r\n\r\n").slice(1).join("\r\n\r\n")).toBe(expected);
    },
  );

  test("can be of Tables with columns in the first event only, or of metadata; errors are Statuses and bookmarks have no rows", async () => {
    for (const [as, first, bookmark] of [
      [
        "Table",
        {
          columnDefinitions: [{ name: "Name" }],
          rows: [{ cells: ["a"], object: "Metadata" }],
          metadata: { resourceVersion: "7" },
        },
        { columnDefinitions: null, rows: [], metadata: { resourceVersion: "12" } },
      ],
      ["PartialObjectMetadata", { metadata: { name: "a" } }, { metadata: { resourceVersion: "12" } }],
    ] as const) {
      const { handle, sink } = watchable();
      const server = await start(handle);
      const response = await open(server, `${collection}?watch=1`, {
        headers: { accept: `application/json;as=${as};v=v1;g=meta.k8s.io` },
      }).response;
      (await sink()).events([
        { type: "ADDED", object: configMap("a") },
        { type: "BOOKMARK", object: configMap("", {}, "12") },
        { type: "ERROR", status: statusError("Expired", "too old").status },
      ]);
      const events = await lines(response, 3);
      expect(events[0]?.object).toMatchObject({ kind: as, ...first });
      expect(events[1]?.object).toMatchObject({ kind: as, ...bookmark });
      expect(events[2]?.object).toMatchObject({ kind: "Status" });
    }
  });

  test("is closed when the client disconnects", async () => {
    const { handle, closed, sink } = watchable();
    const server = await start(handle);
    const { request, response } = open(server, `${collection}?watch=1`);
    await response;
    await sink();
    request.destroy();
    expect(await closed).toBeUndefined();
  });

  test("is rejected in YAML", async () => {
    const { handle } = watchable();
    const server = await start(handle);
    expect((await send(server, `${collection}?watch=1`, { headers: { accept: "application/yaml" } })).status).toBe(406);
  });

  test("ends if a client does not read and too much is buffered", async () => {
    const { handle, closed, sink } = watchable();
    const server = await start(handle, { limits: { pendingBytes: 1_000_000 } });
    const { request, response } = open(server, `${collection}?watch=1`);
    request.on("error", () => undefined);
    (await response).pause();
    const watcher = await sink();
    const big = configMap("big", { v: "x".repeat(500_000) });
    let isClosed = false;
    void closed.then(() => (isClosed = true));
    let sent = 0;
    for (; !isClosed && sent < 1_000; sent++) {
      watcher.events([{ type: "MODIFIED", object: big }]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(isClosed).toBe(true);
    request.destroy();
  });

  test("with many initial events has the same buffer limit afterwards", async () => {
    const opened = gate<WatchSink>();
    const closed = gate<void>();
    const big = (bytes: number) => ({ type: "ADDED" as const, object: configMap("big", { v: "x".repeat(bytes) }) });
    const server = await start(
      async () => ({
        kind: "watch",
        resource: configMaps,
        open: (sink) => {
          for (let slice = 0; slice < 5; slice++) sink.events([big(4_000_000)], true);
          opened.resolve(sink);
          return { close: () => closed.resolve() };
        },
      }),
      { limits: { pendingBytes: 1_000_000 } },
    );
    const { request, response } = open(server, `${collection}?watch=1`);
    request.on("error", () => undefined);
    (await response).pause();
    const sink = await opened.promise;
    for (let sent = 0; sent < 8; sent++) sink.events([big(200_000)]);
    expect(await closed.promise).toBeUndefined();
    request.destroy();
  });

  test("ends after a timeout if a client does not read, however little is buffered", async () => {
    const clock = createVirtualClock();
    const { handle, closed, sink } = watchable();
    const server = await start(handle, { clock, limits: { pendingBytes: 1e12, stallMs: 30_000 } });
    const { request, response } = open(server, `${collection}?watch=1`);
    request.on("error", () => undefined);
    (await response).pause();
    const watcher = await sink();
    const big = configMap("big", { v: "x".repeat(500_000) });
    // Until the sockets' own buffers are full.
    for (let sent = 0; sent < 100; sent++) {
      watcher.events([{ type: "MODIFIED", object: big }]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(30_000);
    await closed;
    request.destroy();
  });

  test("with many initial events is sent completely to a client that reads", async () => {
    const events = Array.from({ length: 3_000 }, (_, index) => ({
      type: "ADDED" as const,
      object: configMap(`n${index}`, { v: "x".repeat(2_000) }),
    }));
    const server = await start(
      async () => ({
        kind: "watch",
        resource: configMaps,
        open: (sink) => {
          for (let start = 0; start < events.length; start += 250) sink.events(events.slice(start, start + 250), true);
          sink.end();
          return { close: () => undefined };
        },
      }),
      { limits: { pendingBytes: 10_000 } },
    );
    const response = await open(server, `${collection}?watch=1`).response;
    const got = await lines(response, 3_001);
    expect(got.map(({ object }) => object.metadata.name)).toEqual(events.map(({ object }) => object.object.metadata.name));
  });
});

describe("the server", () => {
  test("reports a port in use, with a remedy", async () => {
    const other = createTcpServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => other.close());
    const { port } = other.address() as AddressInfo;
    await expect(start(respondWithObject, { port })).rejects.toThrow(
      new RegExp(`port ${port} on 127\\.0\\.0\\.1 is in use.*--api-port`),
    );
  });

  test("does not offer HTTP/2", async () => {
    const server = await start(respondWithObject);
    const socket = connect({
      port: server.port,
      host: "127.0.0.1",
      ca: pki.authority.certificate,
      ALPNProtocols: ["h2", "http/1.1"],
    });
    await new Promise<void>((resolve) => socket.on("secureConnect", () => resolve()));
    expect(socket.alpnProtocol).toBe("http/1.1");
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });

  test("uses renewed certificates for new connections and keeps the open ones", async () => {
    const server = await start(respondWithObject);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    cleanups.push(() => agent.destroy());
    const certificateOf = async (options: RequestOptions): Promise<string | undefined> => {
      const { request, response } = open(server, `${collection}/a`, options);
      request.end();
      const message = await response;
      const { fingerprint256 } = (message.socket as TLSSocket).getPeerCertificate();
      message.resume();
      await once(message, "end");
      return fingerprint256;
    };
    const before = await certificateOf({ agent });
    const renewed = await issueCertificate(pki.authority, {
      commonName: "kube-apiserver",
      usage: "server",
      hosts: ["127.0.0.1"],
      notBefore: new Date(Date.now() - 60_000),
      notAfter: new Date(Date.now() + 60_000),
    });
    server.setTls({ ...renewed, clientAuthority: pki.authority.certificate });
    expect(await certificateOf({ agent })).toBe(before);
    expect(await certificateOf({})).toBe(new X509Certificate(renewed.certificate).fingerprint256);
  });

  /** The TLS handshake has to fit as well, including on a busy machine. */
  const slowLimits = { headersMs: 1_000, requestMs: 1_500 };

  test("closes a connection whose body does not arrive", async () => {
    const server = await start(respondWithObject, { limits: slowLimits });
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined);
    socket.write(
      `POST ${collection} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer good\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`,
    );
    let text = "";
    socket.on("data", (chunk) => (text += String(chunk)));
    await new Promise<void>((resolve) => socket.on("close", () => resolve()));
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("closes a connection whose headers do not arrive", async () => {
    const server = await start(respondWithObject, { limits: slowLimits });
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined);
    socket.write("GET /api HTTP/1.1\r\nhost: x\r\n");
    let text = "";
    socket.on("data", (chunk) => (text += String(chunk)));
    await new Promise<void>((resolve) => socket.on("close", () => resolve()));
    expect(text).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("ends watches on close, finishes requests in progress and accepts no new ones", async () => {
    const { handle, sink, closed } = watchable();
    const release = gate<void>();
    const arrived = gate<void>();
    const server = await start(async (request) => {
      if (request.query?.["watch"]) return handle(request);
      arrived.resolve();
      await release.promise;
      return respondWithObject(request);
    });
    const watch = await open(server, `${collection}?watch=1`).response;
    (await sink()).events([{ type: "ADDED", object: configMap("a") }]);
    const slow = send(server, `${collection}/a`);
    await arrived.promise;
    const closing = server.close();
    expect((await lines(watch, 2)).map(({ type }) => type)).toEqual(["ADDED"]);
    await closed;
    await expect(send(server, collection)).rejects.toThrow(/ECONNREFUSED/);
    release.resolve();
    expect((await slow).status).toBe(200);
    await closing;
    expect(server.close()).toBe(server.close());
  });

  test("closes keep-alive connections on close, including those with a response in progress", async () => {
    const release = gate<void>();
    const arrived = gate<void>();
    const server = await start(async (request) => {
      if (request.path.endsWith("/slow")) {
        arrived.resolve();
        await release.promise;
      }
      return respondWithObject(request);
    });
    const agent = new Agent({ keepAlive: true });
    cleanups.push(() => agent.destroy());
    const slow = send(server, `${collection}/slow`, { agent });
    await send(server, `${collection}/quick`, { agent });
    await arrived.promise;
    const closing = server.close();
    release.resolve();
    expect((await slow).status).toBe(200);
    expect(await closing).toBeUndefined();
  });

  test("drops responses on close that exceed the drain time", async () => {
    const clock = createVirtualClock();
    const arrived = gate<void>();
    const server = await start(
      () => {
        arrived.resolve();
        return new Promise(() => undefined);
      },
      { clock },
    );
    const stuck = send(server, collection);
    stuck.catch(() => undefined);
    await arrived.promise;
    const closing = server.close();
    await clock.advance(10_000);
    await closing;
    await expect(stuck).rejects.toThrow(/socket hang up|ECONNRESET/);
  });
});

describe("a malformed request", () => {
  const userOnly = { headers: { "content-type": "text/plain", accept: "text/plain" }, body: "x" };

  test.each([
    ["may not send it", "/api/v1/namespaces/default/configmaps", "nobody", 403],
    ["sends it to what is not there", "/api/v1/namespaces/default/nothings", "admin", 404],
    ["may send it", "/api/v1/namespaces/default/configmaps", "admin", 406],
  ])("is shown only to users who %s: %s", async (_, path, name, status) => {
    const environment = await startTestEnvironment();
    cleanups.push(() => environment.stop());
    const admin: UserInfo = { username: "admin", groups: ["system:masters"] };
    const server = await start(environment.handle, {
      handle: environment.handle,
      authenticate: () => (name === "admin" ? admin : { username: name, groups: [] }),
    });
    expect((await send(server, path, { ...userOnly, method: "POST" })).status).toBe(status);
  });

  test("is rejected for the media type of its body before its accepted media types", async () => {
    const environment = await startTestEnvironment();
    cleanups.push(() => environment.stop());
    const server = await start(environment.handle, {
      handle: environment.handle,
      authenticate: () => ({ username: "admin", groups: ["system:masters"] }),
    });
    const headers = { "content-type": "text/plain" };
    expect((await send(server, collection, { method: "POST", headers, body: "x" })).status).toBe(415);
    expect((await send(server, `${collection}/x`, { method: "PATCH", headers: userOnly.headers, body: "x" })).status).toBe(415);
  });

  test("with a method unknown to the API or to HTTP gets 405, and 404 if the path does not exist", async () => {
    const environment = await startTestEnvironment();
    cleanups.push(() => environment.stop());
    const server = await start(environment.handle, {
      handle: environment.handle,
      authenticate: () => ({ username: "admin", groups: ["system:masters"] }),
    });
    for (const method of ["OPTIONS", "TRACE", "FROB"]) {
      const reply = await send(server, collection, { method });
      expect([reply.status, reply.json["reason"]]).toEqual([405, "MethodNotAllowed"]);
    }
    expect((await send(server, `${collection}/a/none`, { method: "OPTIONS" })).status).toBe(404);
  });
});

test("a duplicate key in JSON merges objects of a built-in kind, with a warning", async () => {
  const environment = await startTestEnvironment();
  cleanups.push(() => environment.stop());
  const server = await start(environment.handle, { authenticate: () => ({ username: "admin", groups: ["system:masters"] }) });
  const body =
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"x":"1","z":"a,b:\\"}"},"data" : {"y":"2","x":"3"}}';
  const reply = await send(server, collection, { method: "POST", body });
  expect(reply.json["data"]).toEqual({ x: "3", y: "2", z: 'a,b:"}' });
  expect(reply.headers["warning"]).toContain('duplicate field \\"data\\"');
});

test("a duplicate key in YAML is a warning, or an error with strict fieldValidation", async () => {
  const environment = await startTestEnvironment();
  cleanups.push(() => environment.stop());
  const server = await start(environment.handle, { authenticate: () => ({ username: "admin", groups: ["system:masters"] }) });
  const body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}\n";
  const headers = { "content-type": "application/yaml" };
  const strict = await send(server, `${collection}?fieldValidation=Strict`, { method: "POST", headers, body });
  expect(strict.status).toBe(400);
  const reply = await send(server, collection, { method: "POST", headers, body });
  expect(reply.status).toBe(201);
  expect(reply.json["data"]).toEqual({ x: "2" });
  expect(reply.headers["warning"]).toContain('line 4: key \\"x\\" already set in map');
});
