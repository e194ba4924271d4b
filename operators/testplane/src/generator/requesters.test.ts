import { once } from "node:events";
import { createServer as createHttp1Server, type Server } from "node:http";
import { createServer as createHttp2Server, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, describe, expect, it } from "vitest";
import { createRequester } from "./create-requester.ts";
import type { GeneratorReport } from "./generator-report.ts";
import type { LoadPlan, RequestPlan } from "./load-plan.ts";
import { runGenerator } from "./run-generator.ts";

type Protocol = RequestPlan["protocol"];
type Respond = (
  count: number,
  path: string | undefined,
  respond: (status: number, body?: string) => void,
  hangUp: () => void,
) => void;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

/** A server that counts its requests, on the loopback interface. */
async function serve(protocol: Protocol, onRequest: Respond) {
  let requests = 0;
  const bodies: string[] = [];
  let connections = 0;
  const sessions = new Set<ServerHttp2Session>();
  let server: Server | Http2Server;
  if (protocol === "HTTP/2") {
    const http2 = createHttp2Server();
    http2.on("session", (session) => {
      connections++;
      sessions.add(session);
    });
    http2.on("stream", (stream, headers) => {
      requests++;
      stream.on("error", () => {});
      const respond = (status: number, body = "") => {
        stream.respond({ ":status": status });
        stream.end(body);
      };
      stream.resume();
      onRequest(requests, String(headers[":path"]), respond, () => stream.session?.destroy());
    });
    server = http2;
  } else {
    server = createHttp1Server((request, response) => {
      requests++;
      request.setEncoding("utf8");
      request.on("data", (chunk: string) => bodies.push(chunk));
      const respond = (status: number, body = "") => response.writeHead(status).end(body);
      onRequest(requests, request.url, respond, () => request.socket.destroy());
    });
    server.keepAliveTimeout = 0;
    server.on("connection", () => connections++);
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(async () => {
    for (const session of sessions) session.destroy();
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/path?q=1`, requests: () => requests, connections: () => connections, bodies };
}

const open = (rate: number): Pick<LoadPlan, "model" | "stages"> => ({
  model: "open",
  stages: [{ durationMs: 500, from: rate, to: rate }],
});

async function load(
  url: string,
  protocol: Protocol,
  plan: Partial<LoadPlan> = {},
  request: Partial<RequestPlan> = {},
): Promise<GeneratorReport> {
  const whole: LoadPlan = {
    ...{ maxConnections: 4, timeoutMs: 30_000, thinkTimeMs: 0, worker: 0, workers: 1 },
    ...open(400),
    ...plan,
    request: { url, method: "GET", headers: { "X-Test": "1" }, protocol, insecureSkipTlsVerify: false, ...request },
  };
  const requester = await createRequester(whole);
  const { signal } = new AbortController();
  return runGenerator({
    plan: whole,
    requester,
    clock: systemClock,
    signal,
    maxPauseMs: () => 0,
    print: () => Promise.resolve(),
  });
}

describe.each<Protocol>(["HTTP/1.1", "HTTP/2"])("a load by %s", { timeout: 60_000 }, (protocol) => {
  it("counts as many requests as the server, over a bounded number of connections", async () => {
    const server = await serve(protocol, (count, _, respond) => respond(count % 4 === 0 ? 503 : 200, "body"));
    const report = await load(server.url, protocol);
    expect(report).toMatchObject({
      ...{ requests: 200, failed: 50, notSent: 0, isComplete: true, bytesReceived: 800 },
      statusCodes: { 200: 150, 503: 50 },
    });
    expect(server.requests()).toBe(200);
    expect(server.connections()).toBeLessThanOrEqual(4);
  });

  it("counts a closed model's requests, and takes only the expected statuses as success", async () => {
    const server = await serve(protocol, (_, path, respond) => respond(path === "/path?q=1" ? 404 : 200));
    const stages = [{ durationMs: 300, from: 3, to: 3 }];
    const report = await load(server.url, protocol, { model: "closed", stages }, { expectedStatusCodes: [404] });
    expect(report.requests).toBe(server.requests());
    expect(report.requests).toBeGreaterThan(0);
    expect(report.failed).toBe(0);
  });

  it("lets the users of a closed model share a connection", async () => {
    const server = await serve(protocol, (_, __, respond) => respond(200));
    const stages = [{ durationMs: 300, from: 150, to: 150 }];
    const report = await load(server.url, protocol, { model: "closed", stages, maxConnections: 1 });
    expect(report).toMatchObject({ requests: server.requests(), failed: 0, isComplete: true });
    expect(report.requests).toBeGreaterThanOrEqual(150);
    expect(server.connections()).toBe(1);
  });

  it("counts broken connections as failures and continues with new ones", async () => {
    const server = await serve(protocol, (count, _, respond, hangUp) => (count === 20 ? hangUp() : respond(200)));
    const report = await load(server.url, protocol, { maxConnections: 1 });
    expect(report).toMatchObject({ requests: 200, isComplete: true });
    expect(report.failed).toBeGreaterThanOrEqual(1);
    expect(report.statusCodes["200"]).toBe(200 - report.failed);
    expect(server.connections()).toBeGreaterThanOrEqual(2);
  });

  it("counts refused connections and responses that never come", async () => {
    const refused = await load("http://127.0.0.1:1/", protocol, open(20));
    expect(refused).toMatchObject({ requests: 10, failed: 10, errors: { ECONNREFUSED: 10 } });
    const server = await serve(protocol, () => {});
    const silent = await load(server.url, protocol, { ...open(20), maxConnections: 10, timeoutMs: 200 });
    expect(silent).toMatchObject({ requests: 10, failed: 10, errors: { Timeout: 10 } });
  });
});

it("sends the method, the body and the headers", { timeout: 60_000 }, async () => {
  const server = await serve("HTTP/1.1", (_, __, respond) => respond(201));
  const report = await load(server.url, "HTTP/1.1", open(4), { method: "POST", body: "hello" });
  expect(report).toMatchObject({ requests: 2, statusCodes: { 201: 2 } });
  expect(server.bodies).toEqual(["hello", "hello"]);
});
