import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TLSSocket } from "node:tls";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { serveApi } from "../../serving/serve-api.ts";
import type { ServedApi } from "../../serving/serve-options.ts";
import { type Answer, type ApiConnection, connectApi } from "../../testing/conformance/api-connection.ts";
import { systemRandom } from "../random-source.ts";

const token = "token-of-the-administrator";
let dataDir: string;
let api: ServedApi;
let connection: ApiConnection;
let kubelet: Server;
/** Requests of the kubelet: method, URL, the client's common name and organization, and a header. */
let asked: unknown[] = [];
/** Calls that reached the handlers of the embedded node. */
let local: string[] = [];
let respond: (request: IncomingMessage) => { status: number; headers?: Record<string, string>; body?: string };

const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
  connection.send({
    method,
    target: path,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

async function createNode(name: string, address: string, port: number): Promise<void> {
  await send("POST", "/api/v1/nodes", { apiVersion: "v1", kind: "Node", metadata: { name } });
  const addresses = [{ type: "InternalIP", address }];
  const status = { addresses, daemonEndpoints: { kubeletEndpoint: { Port: port } } };
  await send("PUT", `/api/v1/nodes/${name}/status`, { apiVersion: "v1", kind: "Node", metadata: { name }, status });
}
const createPod = (name: string, nodeName: string, containers = ["main"]) =>
  send("POST", "/api/v1/namespaces/default/pods", {
    ...{ apiVersion: "v1", kind: "Pod", metadata: { name } },
    spec: { nodeName, containers: containers.map((each) => ({ name: each, image: "i" })) },
  });

beforeAll(async () => {
  const [notBefore, notAfter] = [new Date(Date.now() - 60_000), new Date(Date.now() + 3_600_000)];
  const authority = await createCertificateAuthority("node", notBefore, notAfter);
  const tls = await issueCertificate(authority, {
    commonName: "node",
    usage: "server",
    hosts: ["127.0.0.1"],
    notBefore,
    notAfter,
  });
  const options = { cert: tls.certificate, key: tls.key, requestCert: true, rejectUnauthorized: false };
  kubelet = createServer(options, (request, response) => {
    const subject = request.socket instanceof TLSSocket ? request.socket.getPeerCertificate().subject : undefined;
    asked.push([request.method, request.url, subject?.CN, subject?.O, request.headers["x-keelson-process-access"]]);
    const { status, headers = {}, body = "" } = respond(request);
    response.writeHead(status, headers).end(body);
  }).listen(0, "127.0.0.1");
  await once(kubelet, "listening");
  dataDir = await mkdtemp(join(tmpdir(), "keelson-kubelets-"));
  const record = (name: string) => () => {
    local.push(name);
    return Promise.resolve({ kind: "raw" as const, status: 200, headers: {}, body: "local" });
  };
  api = await serveApi({
    ...{ dataDir, port: 0, clock: systemClock, random: systemRandom, storage: { sync: false } },
    staticTokens: new Map([[token, { username: "admin", groups: ["system:masters"] }]]),
    kubeletHeaders: (user) => ({ "x-keelson-process-access": user.username === "admin" ? "allowed" : "denied" }),
    subresources: { "/pods/log": record("log"), "/nodes/proxy": record("proxy") },
  });
  connection = connectApi(api.url, await readFile(join(dataDir, "pki", "ca.crt"), "utf8"));
  const { port } = kubelet.address() as AddressInfo;
  await createNode("remote", "127.0.0.1", port);
  await createNode("embedded", "127.0.0.1", 0);
  await createPod("there", "remote");
  await createPod("two", "remote", ["a", "b"]);
  await createPod("here", "embedded");
});
afterAll(async () => {
  connection.close();
  await api.close();
  kubelet.closeAllConnections();
  kubelet.close();
  await rm(dataDir, { recursive: true });
});
beforeEach(() => {
  asked = [];
  local = [];
  respond = () => ({
    status: 200,
    headers: { "content-type": "text/plain", "set-cookie": "a=b", "x-other": "1" },
    body: "its log",
  });
});

const log = (pod: string, query = ""): Promise<Answer> => send("GET", `/api/v1/namespaces/default/pods/${pod}/log${query}`);

describe("a Pod on a node with its own kubelet", () => {
  it("has its log read there, with the identity of the API server, and without other headers in the response", async () => {
    const answer = await log("there", "?tailLines=3&container=main");
    expect(answer).toMatchObject({ status: 200, body: "its log" });
    expect(answer.headers["set-cookie"] ?? answer.headers["x-other"]).toBeUndefined();
    const url = "/containerLogs/default/there/main?tailLines=3";
    expect(asked).toEqual([["GET", url, "kube-apiserver-kubelet-client", "keelson:kubelet-clients", "allowed"]]);
    expect(local).toEqual([]);
  });

  it("needs the name of the container if it has several", async () => {
    expect(await log("two")).toMatchObject({ status: 400, body: { message: expect.stringContaining("choose one of: [a b]") } });
    expect(await log("two", "?container=x")).toMatchObject({ status: 400 });
    expect((await log("two", "?container=b")).status).toBe(200);
    expect(asked).toHaveLength(1);
  });

  it("reports a kubelet's refusal as a Status, and does not follow or pass on redirects", async () => {
    respond = () => ({ status: 404, body: "no such container" });
    expect(await log("there")).toMatchObject({
      status: 404,
      body: { kind: "Status", message: "the kubelet responded with HTTP status 404: no such container" },
    });
    respond = () => ({ status: 307, headers: { location: "/api/v1/secrets" } });
    const redirected = await log("there");
    expect(redirected).toMatchObject({ status: 503, body: { kind: "Status" } });
    expect(redirected.headers["location"]).toBeUndefined();
  });

  it("is not looked for on other nodes", async () => {
    expect(await log("here")).toMatchObject({ status: 200, body: "local" });
    expect(await log("none")).toMatchObject({ status: 404 });
    expect([local, asked]).toEqual([["log"], []]);
  });
});

describe("nodes/proxy", () => {
  it("reaches the kubelet of that node, even with a scheme and a port in the name", async () => {
    for (const name of ["remote", "remote:10250", "https:remote:10250"]) {
      expect((await send("GET", `/api/v1/nodes/${name}/proxy/healthz`)).body).toBe("its log");
    }
    expect(asked.map((each) => (each as unknown[])[1])).toEqual(["/healthz", "/healthz", "/healthz"]);
    expect(local).toEqual([]);
  });
});

describe("a Node that reports a false address", () => {
  it.each([
    ["the API server itself", "127.0.0.1", () => Number(new URL(api.url).port)],
    ["a link-local address", "169.254.169.254", () => 80],
    ["an invalid port", "127.0.0.1", () => 70_000],
    ["a host name", "localhost", () => 443],
  ])("is not connected to: %s", async (_, address, port) => {
    const name = `false-${address.replaceAll(".", "-")}-${port()}`;
    await createNode(name, address, port());
    const answer = await send("GET", `/api/v1/nodes/${name}/proxy/api/v1/secrets`);
    expect(answer).toMatchObject({ status: 400 });
  });
});
