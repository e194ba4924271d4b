import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { Duplex } from "node:stream";
import { text } from "node:stream/consumers";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { PodCall } from "../logs/pod-log.ts";
import type { PodHandler } from "../pod-handlers.ts";
import { type NodeServer, startNodeServer } from "./node-server.ts";

const now = Date.now();
const day = 24 * 60 * 60 * 1000;
const valid = { notBefore: new Date(now - day), notAfter: new Date(now + day) };
let authority: KeyPair;
let server: NodeServer;
/** The calls that reached a handler. */
let calls: PodCall[] = [];
let reviewed: unknown[] = [];
const errors: unknown[] = [];

const record: PodHandler = (call) => {
  calls.push(call);
  return Promise.resolve({
    kind: "raw",
    status: 200,
    headers: {},
    body: (async function* () {
      yield Buffer.from("the log\n");
    })(),
  });
};
const echo: PodHandler = (call) => {
  calls.push(call);
  return Promise.resolve({
    kind: "upgrade",
    connect: ({ socket, url }) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\nx-url: ${url}\r\n\r\n`);
      socket.pipe(socket);
    },
  });
};

beforeAll(async () => {
  authority = await createCertificateAuthority("cluster", valid.notBefore, valid.notAfter);
  const tls = await issueCertificate(authority, { commonName: "node", usage: "server", hosts: ["127.0.0.1"], ...valid });
  server = await startNodeServer({
    ...{ nodeName: "here", address: "127.0.0.1", port: 0, tls, clientAuthority: authority.certificate, clock: systemClock },
    reviews: {
      authenticate: (token) => {
        if (token === "broken") return Promise.reject(new Error("no API server"));
        return Promise.resolve(token.startsWith("token-of-") ? { username: token.slice("token-of-".length) } : undefined);
      },
      isAllowed: (caller, attributes) => {
        reviewed.push(attributes);
        return Promise.resolve(caller.username === "reader" || (caller.groups ?? []).includes("system:masters"));
      },
    },
    resourceMetrics: () => "node_cpu_usage_seconds_total 1 2\n",
    handlers: { "/pods/log": record, "/pods/exec": echo },
    onError: (error) => errors.push(error),
  });
});
afterAll(async () => {
  await server.stop();
  expect(errors).toEqual([]);
});
beforeEach(() => {
  calls = [];
  reviewed = [];
});

const send = async (path: string, options: RequestOptions = {}): Promise<{ status: number; body: string }> => {
  const outgoing = request({
    host: "127.0.0.1",
    port: server.port,
    path,
    ca: authority.certificate,
    agent: false,
    ...options,
  }).end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
};
const bearer = (token: string): RequestOptions => ({ headers: { authorization: `Bearer ${token}` } });
const certified = async (by: KeyPair, user: { commonName: string; organizations?: string[] }, validity = valid) => {
  const { certificate, key } = await issueCertificate(by, { ...user, usage: "client", ...validity });
  return { cert: certificate, key };
};
const log = "/containerLogs/a/p/main?tailLines=1";

describe("the kubelet API", () => {
  it("rejects requests without credentials and with invalid ones", async () => {
    for (const options of [{}, bearer("forged"), { headers: { authorization: "Basic YTpi" } }]) {
      expect((await send(log, options)).status).toBe(401);
    }
    for (const path of ["/healthz", "//", "//host/exec/a/p/main"]) expect((await send(path)).status).toBe(401);
    expect(calls).toEqual([]);
  });

  it("rejects users without permission to use this node's kubelet API, and names it", async () => {
    const { status, body } = await send(log, bearer("token-of-mallory"));
    expect([status, body]).toEqual([403, "Forbidden (user=mallory, verb=get, resource=nodes, subresource(s)=[proxy])"]);
    const resourceAttributes = { verb: "get", version: "v1", resource: "nodes", subresource: "proxy", name: "here" };
    expect(reviewed).toEqual([{ resourceAttributes }]);
    expect(calls).toEqual([]);
  });

  it("serves logs to authorized users", async () => {
    expect(await send(log, bearer("token-of-reader"))).toEqual({ status: 200, body: "the log\n" });
    expect(calls[0]).toMatchObject({ info: { namespace: "a", name: "p" }, query: { container: "main", tailLines: "1" } });
    expect((await send("/healthz", bearer("token-of-reader"))).body).toBe("ok");
    expect((await send("/pods", bearer("token-of-reader"))).status).toBe(404);
  });

  it("serves resource usage to users with permission to use metrics of the Node", async () => {
    const { body } = await send("/metrics/resource", bearer("token-of-mallory"));
    expect(body).toContain("subresource(s)=[metrics]");
    const figures = { status: 200, body: "node_cpu_usage_seconds_total 1 2\n" };
    expect(await send("/metrics/resource", bearer("token-of-reader"))).toEqual(figures);
    expect((await send("/metrics/cadvisor", bearer("token-of-reader"))).status).toBe(404);
  });

  it("authenticates the cluster's client certificates, and no others", async () => {
    const organizations = ["system:masters"];
    const apiServer = await certified(authority, { commonName: "kube-apiserver-kubelet-client", organizations });
    expect((await send(log, apiServer)).status).toBe(200);
    const stranger = await createCertificateAuthority("stranger", valid.notBefore, valid.notAfter);
    expect((await send(log, await certified(stranger, { commonName: "admin", organizations }))).status).toBe(401);
    const past = { notBefore: new Date(now - 2 * day), notAfter: new Date(now - day) };
    expect((await send(log, await certified(authority, { commonName: "admin", organizations }, past))).status).toBe(401);
    expect(calls).toHaveLength(1);
  });

  it("is unavailable while the API server cannot review the sender", async () => {
    expect((await send(log, bearer("broken"))).status).toBe(500);
    expect(calls).toEqual([]);
  });

  it("switches protocols for authorized users only", async () => {
    const headers = { connection: "Upgrade", upgrade: "echo" };
    const upgrade = (token: string) =>
      request({
        ...{
          host: "127.0.0.1",
          port: server.port,
          path: "/exec/a/p/main?command=id&input=1",
          ca: authority.certificate,
          agent: false,
        },
        headers: { ...headers, authorization: `Bearer ${token}` },
      }).end();
    const [refused] = (await once(upgrade("token-of-mallory"), "response")) as [IncomingMessage];
    expect(refused.statusCode).toBe(403);
    refused.resume();
    const [response, socket] = (await once(upgrade("token-of-reader"), "upgrade")) as [IncomingMessage, Duplex];
    expect(response.headers["x-url"]).toBe("/api/v1/namespaces/a/pods/p/exec?container=main&command=id&stdin=1");
    socket.write("hello");
    expect(String((await once(socket, "data"))[0])).toBe("hello");
    socket.destroy();
    expect(calls).toHaveLength(1);
  });
});
