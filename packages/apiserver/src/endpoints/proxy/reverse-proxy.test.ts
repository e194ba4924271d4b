import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, text } from "node:stream/consumers";
import { connect as tlsConnect } from "node:tls";
import { gunzipSync, gzipSync } from "node:zlib";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serveApi } from "../../serving/serve-api.ts";
import type { ServedApi } from "../../serving/serve-options.ts";
import { systemUser } from "../../system-user.ts";
import { type Answer, type ApiConnection, connectApi } from "../../testing/conformance/api-connection.ts";
import { systemRandom } from "../random-source.ts";
import { parseProxyName } from "./proxy-target.ts";

const token = "token-of-the-administrator";
const core = "/api/v1/namespaces/default";
/** An address of the embedded node's Pod network. */
const podIP = "127.90.0.1";
let dataDir: string;
let authority: string;
let api: ServedApi;
let connection: ApiConnection;
let backend: Server;
let port: number;
/** The headers of the last upgrade that reached the backend. */
let upgraded: IncomingMessage["headers"];

beforeAll(async () => {
  backend = createServer(
    (request, response) =>
      void echo(request).then((seen) => {
        const { path } = seen;
        if (path === "/moved") response.writeHead(302, { location: "/there?a=1" }).end();
        else if (path?.startsWith("/page") === true) sendPage(path, response);
        else response.writeHead(200, { "content-type": "application/json", "x-backend": "yes" }).end(JSON.stringify(seen));
      }),
  );
  backend.on("upgrade", (request, socket) => {
    upgraded = request.headers;
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => void backend.listen(0, podIP, resolve));
  port = (backend.address() as AddressInfo).port;
  dataDir = await mkdtemp(join(tmpdir(), "keelson-proxy-"));
  api = await serveApi({
    dataDir,
    port: 0,
    clock: systemClock,
    random: systemRandom,
    storage: { sync: false },
    staticTokens: new Map([
      [token, { username: "admin", groups: ["system:masters"] }],
      ["token-of-an-ordinary-user", { username: "jane", groups: [] }],
    ]),
  });
  authority = await readFile(join(dataDir, "pki", "ca.crt"), "utf8");
  connection = connectApi(api.url, authority);
  await createBackends();
});
afterAll(async () => {
  connection.close();
  await api.close();
  backend.closeAllConnections();
  backend.close();
  await rm(dataDir, { recursive: true, force: true });
});

/** Links to the target, to the API server, to another host, and relative ones. */
const page = (own: string, api: string): string =>
  `<a href="/x/?q=1#f">é</a><a href=//${own}/x>x</a><a href="https://${api}/x">y</a><a href="https://a.example/x">z</a><a href="x"><p href="/x">`;

/** A page of HTML, as the path says. */
function sendPage(path: string, response: ServerResponse): void {
  const html = Buffer.from(page(`${podIP}:${port}`, new URL(api.url).host));
  const isZipped = path.includes("gzip");
  const body = isZipped ? gzipSync(html) : html;
  const type = path.includes("plain") ? "text/plain" : "text/html; charset=utf-8";
  const encoding = isZipped ? "gzip" : path.includes("odd") ? "odd" : undefined;
  response.writeHead(path.includes("part") ? 206 : 200, {
    "content-type": type,
    "content-length": body.length,
    ...(encoding !== undefined && { "content-encoding": encoding }),
  });
  response.end(body);
}

async function echo(request: IncomingMessage): Promise<{ method?: string; path?: string; body: string; headers: object }> {
  const { method = "", url = "", headers } = request;
  return { method, path: url, body: await text(request), headers };
}

/** A Pod and a Service whose endpoint is the backend, the same with an address of the host, and a Service without endpoints. */
async function createBackends(): Promise<void> {
  await createBackend("p", "s", podIP);
  await createBackend("forged", "forged", "127.0.0.1");
  await createService("empty");
}

const metadata = (name: string): object => ({ name, namespace: "default" });

async function createService(name: string): Promise<void> {
  const spec = { ports: [{ name: "web", port: 80 }] };
  await write("POST", `${core}/services`, { apiVersion: "v1", kind: "Service", metadata: metadata(name), spec });
}

async function createBackend(pod: string, service: string, address: string): Promise<void> {
  const containers = [{ name: "c", image: "i", ports: [{ containerPort: port }] }];
  await write("POST", `${core}/pods`, { apiVersion: "v1", kind: "Pod", metadata: metadata(pod), spec: { containers } });
  const status = { phase: "Running", podIP: address, podIPs: [{ ip: address }] };
  await write("PATCH", `${core}/pods/${pod}/status`, { status }, "application/merge-patch+json");
  await createService(service);
  await write("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { ...metadata(`${service}-1`), labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    endpoints: [{ addresses: [address], conditions: { ready: true } }],
    ports: [{ name: "web", port, protocol: "TCP" }],
  });
}

async function write(method: "POST" | "PATCH", path: string, body: unknown, type = "application/json"): Promise<void> {
  const outcome = await api.server.handle({ method, path, body, headers: { "content-type": type }, user: systemUser });
  if (outcome.kind !== "object") throw new Error(JSON.stringify(outcome));
}

function send(method: string, target: string, body?: string, bearer = token): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${bearer}`,
    "content-type": "text/plain",
    "x-keelson-process-access": "allowed",
  };
  return connection.send({ method, target, headers, ...(body === undefined ? {} : { body }) });
}

async function fetchRaw(target: string): Promise<{ readonly headers: IncomingHttpHeaders; readonly body: Buffer }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    httpsRequest(`${api.url}${target}`, { ca: authority, agent: false, headers }, (response) => {
      buffer(response).then((body) => resolve({ headers: response.headers, body }), reject);
    })
      .on("error", reject)
      .end();
  });
}

describe("the proxy", () => {
  it.each(["pods/p", "pods/http:p:PORT", "services/s:web", "services/s:80", "services/http:s:web"])(
    "passes requests on to %s",
    async (name) => {
      const { status, headers, body } = await send(
        "POST",
        `${core}/${name.replace("PORT", String(port))}/proxy/a%2Fb/?q=1&q=2`,
        "hello",
      );
      expect([status, headers["x-backend"]]).toEqual([200, "yes"]);
      expect(body).toMatchObject({ method: "POST", path: "/a%2Fb/?q=1&q=2", body: "hello" });
    },
  );

  it.each(["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])("passes on %s", async (method) => {
    expect((await send(method, `${core}/services/s:web/proxy/x`)).body).toMatchObject({ method, path: "/x" });
  });

  it.each(["DELETE", "GET", "OPTIONS", "POST"])("passes on the chunked body of %s as a body", async (method) => {
    const body = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    const { hostname, port: apiPort } = new URL(api.url);
    const socket = tlsConnect({ host: hostname, port: Number(apiPort), ca: authority });
    const head = [
      `${method} ${core}/pods/p/proxy/x HTTP/1.1`,
      "host: a",
      `authorization: Bearer ${token}`,
      "transfer-encoding: chunked",
      "connection: close",
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    const response = await text(socket);
    expect(response).toContain("HTTP/1.1 200 OK");
    expect(response).toContain(JSON.stringify({ method, path: "/x", body }).slice(0, -1));
  });

  it("keeps the client's credentials to itself and says where it was called", async () => {
    const { body } = await send("GET", `${core}/pods/p/proxy/x`);
    const { headers } = body as { headers: Record<string, string> };
    expect(headers["authorization"]).toBeUndefined();
    expect(headers["x-keelson-process-access"]).toBeUndefined();
    expect(headers["x-forwarded-uri"]).toBe(`${core}/pods/p/proxy/x`);
    expect(headers["host"]).toBe(`${podIP}:${port}`);
  });

  it("redirects a GET without a path, and leads redirects back through itself", async () => {
    const root = await send("GET", `${core}/pods/p/proxy?a=1`);
    expect([root.status, root.headers.location]).toEqual([301, `${core}/pods/p/proxy/?a=1`]);
    expect((await send("POST", `${core}/pods/p/proxy`)).body).toMatchObject({ path: "/" });
    const moved = await send("GET", `${core}/pods/p/proxy/moved`);
    expect([moved.status, moved.headers.location]).toEqual([302, `${core}/pods/p/proxy/there?a=1`]);
  });

  it.each(["/page", "/page-gzip"])("leads the links of HTML back through itself: %s", async (path) => {
    const prefix = `${core}/pods/p/proxy`;
    const { headers, body } = await fetchRaw(`${prefix}${path}`);
    const { host } = new URL(api.url);
    expect((headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString()).toBe(
      `<a href="${prefix}/x/?q=1#f">é</a><a href=${prefix}/x>x</a><a href="https://${host}${prefix}/x">y</a>` +
        '<a href="https://a.example/x">z</a><a href="x"><p href="/x">',
    );
  });

  it.each(["/page-plain", "/page-odd", "/page-part"])("passes other responses on as they are: %s", async (path) => {
    const { headers, body } = await fetchRaw(`${core}/pods/p/proxy${path}`);
    expect(body.toString()).toBe(page(`${podIP}:${port}`, new URL(api.url).host));
    expect(headers["content-length"]).toBe(String(body.length));
  });

  it("switches protocols", async () => {
    const received = await new Promise<string>((resolve, reject) => {
      const request = httpsRequest(`${api.url}${core}/pods/p/proxy/x`, {
        ca: authority,
        agent: false,
        headers: {
          authorization: `Bearer ${token}`,
          connection: "Upgrade, X-Remote-User",
          upgrade: "echo",
          "content-length": "0",
        },
      });
      request.on("error", reject);
      request.on("response", (response) => reject(new Error(`not switched: ${response.statusCode}`)));
      request.on("upgrade", (_response, socket) => {
        socket.on("data", (data: Buffer) => {
          socket.destroy();
          resolve(data.toString());
        });
        socket.write("ping");
      });
      request.end();
    });
    expect(received).toBe("ping");
    expect(upgraded).toMatchObject({ connection: "Upgrade", upgrade: "echo" });
    expect(upgraded).not.toHaveProperty("content-length");
  });

  it.each([
    ["pods/none", 404, 'pods "none" not found'],
    ["services/empty:web", 503, 'no endpoints available for service "empty:web"'],
    ["services/s:81", 503, 'no service port 81 found for service "s"'],
    ["pods/ftp:p:80", 400, 'invalid pod request "ftp:p:80"'],
    ["pods/p:1", 503, "error trying to reach service"],
  ])("fails for %s with %i", async (name, code, message) => {
    const { status, body } = await send("GET", `${core}/${name}/proxy/x`);
    expect(status).toBe(code);
    expect((body as { message: string }).message).toContain(message);
  });

  it("does not connect to listeners of the host", async () => {
    for (const target of ["pods/forged", "services/forged:web"]) {
      const { status, body } = await send("GET", `${core}/${target}/proxy/x`);
      expect([status, (body as { message: string }).message]).toEqual([400, "address not allowed"]);
    }
  });

  it("needs permission to use it", async () => {
    const { status, body } = await send("GET", `${core}/pods/p/proxy/x`, undefined, "token-of-an-ordinary-user");
    expect([status, (body as { message: string }).message]).toEqual([
      403,
      'pods "p" is forbidden: User "jane" cannot get resource "pods/proxy" in API group "" in the namespace "default"',
    ]);
  });
});

it.each([
  ["a", { scheme: "", name: "a", port: "" }],
  ["a:80", { scheme: "", name: "a", port: "80" }],
  ["https:a:web", { scheme: "https", name: "a", port: "web" }],
  ["https:a:", { scheme: "https", name: "a", port: "" }],
  ["ftp:a:1", undefined],
  [":80", undefined],
  ["a:b:c:d", undefined],
])("the name %s in a proxy path", (name, parsed) => {
  expect(parseProxyName(name)).toEqual(parsed);
});
