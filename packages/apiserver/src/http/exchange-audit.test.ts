import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JsonObject, statusError } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openAuditLog } from "../audit/audit-log.ts";
import { AuditMetrics } from "../audit/audit-metrics.ts";
import { Auditor } from "../audit/auditor.ts";
import { readAuditPolicy } from "../audit/read-policy.ts";
import { createAuthenticator } from "../auth/authentication/authenticator.ts";
import { ensurePki, type Pki } from "../auth/certificates/pki.ts";
import type { Handle } from "../endpoints/outcome.ts";
import { toTable } from "../table/table.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { startHttpServer } from "./server/http-server.ts";
import type { HttpServer } from "./server/http-server-options.ts";

let directory: string;
let pki: Pki;
let environment: TestEnvironment;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-audit-http-"));
  pki = await ensurePki(directory, Date.now());
  environment = await startTestEnvironment();
});
afterAll(async () => {
  await environment.stop();
  await rm(directory, { recursive: true, force: true });
});

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const everything = { apiVersion: "audit.k8s.io/v1", kind: "Policy", rules: [{ level: "Metadata" }] };

interface Audited {
  readonly server: HttpServer;
  readonly events: JsonObject[];
  /** Resolves when there are this many events. */
  waitFor(count: number): Promise<void>;
}

async function start(handle: Handle, write?: (line: string) => void, metrics = new AuditMetrics()): Promise<Audited> {
  const events: JsonObject[] = [];
  const waiting = new Set<() => void>();
  const record = (line: string): void => {
    events.push(JSON.parse(line) as JsonObject);
    for (const check of waiting) check();
  };
  const server = await startHttpServer({
    handle,
    auditor: new Auditor({ policy: readAuditPolicy(everything), clock: systemClock, metrics, write: write ?? record }),
    authenticate: createAuthenticator({
      tokens: [(token) => (token === "good" ? { username: "admin", groups: ["system:masters"] } : undefined)],
      authorizer: {
        authorize: (_user, _verb, target) => ({ allowed: !("name" in target && target.name === "root"), reason: "" }),
      },
      now: () => Date.now(),
    }),
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    toTable,
    port: 0,
    clock: systemClock,
    newId: randomUUID,
  });
  cleanups.push(() => server.close());
  const waitFor = (count: number): Promise<void> =>
    new Promise((resolve) => {
      const check = (): void => {
        if (events.length < count) return;
        waiting.delete(check);
        resolve();
      };
      waiting.add(check);
      check();
    });
  return { server, events, waitFor };
}

async function open(server: HttpServer, path: string, headers: OutgoingHttpHeaders = {}): Promise<IncomingMessage> {
  const request = httpsRequest(`${server.url}${path}`, {
    ca: pki.authority.certificate,
    agent: false,
    headers: { authorization: "Bearer good", ...headers },
  });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response;
}

async function get(server: HttpServer, path: string, headers: OutgoingHttpHeaders = {}): Promise<IncomingMessage> {
  const response = await open(server, path, headers);
  response.resume();
  await once(response, "end");
  return response;
}

const configMaps = "/api/v1/namespaces/default/configmaps";

test("an event names the client, the raw URL and the audit id of the response", async () => {
  const { server, events, waitFor } = await start(environment.handle);
  const response = await get(server, `${configMaps}?limit=1&limit=2`, {
    "user-agent": "kubectl/v1.35",
    "x-forwarded-for": "192.0.2.1, unknown",
    "x-real-ip": "192.0.2.2",
  });
  await waitFor(2);
  expect(events[1]).toMatchObject({
    stage: "ResponseComplete",
    auditID: response.headers["audit-id"],
    requestURI: `${configMaps}?limit=1&limit=2`,
    sourceIPs: ["192.0.2.1", "192.0.2.2", "127.0.0.1"],
    userAgent: "kubectl/v1.35",
    responseStatus: { metadata: {}, code: 200 },
  });
});

test("an event has the client's audit id", async () => {
  const { server, events, waitFor } = await start(environment.handle);
  await get(server, "/version", { "audit-id": "mine" });
  await waitFor(2);
  expect(events).toMatchObject([{ auditID: "mine", verb: "get", requestURI: "/version" }, { auditID: "mine" }]);
  expect(events[0]).not.toHaveProperty("objectRef");
});

test("a failed authentication has one event without a user", async () => {
  const { server, events, waitFor } = await start(environment.handle);
  expect((await get(server, configMaps, { authorization: "Bearer wrong" })).statusCode).toBe(401);
  await get(server, configMaps);
  await waitFor(3);
  expect(events.map(({ stage }) => stage)).toEqual(["ResponseStarted", "RequestReceived", "ResponseComplete"]);
  expect(events[0]).toMatchObject({ user: {}, responseStatus: { reason: "Unauthorized", code: 401 } });
});

test("an impersonated request has both users, a rejected impersonation the sender only", async () => {
  const { server, events, waitFor } = await start(environment.handle);
  await get(server, configMaps, { "impersonate-user": "alice" });
  await waitFor(2);
  expect(events[0]).not.toHaveProperty("impersonatedUser");
  expect(events[1]).toMatchObject({
    user: { username: "admin" },
    impersonatedUser: { username: "alice", groups: ["system:authenticated"] },
    responseStatus: { code: 403 },
  });
  await get(server, configMaps, { "impersonate-user": "root" });
  await waitFor(4);
  expect(events[3]).toMatchObject({ user: { username: "admin" }, responseStatus: { reason: "Forbidden", code: 403 } });
  expect(events[3]).not.toHaveProperty("impersonatedUser");
});

test("a watch is complete when its client disconnects", async () => {
  const { server, events, waitFor } = await start(environment.handle);
  const response = await open(server, `${configMaps}?watch=1`);
  await waitFor(2);
  expect(events.map(({ stage }) => stage)).toEqual(["RequestReceived", "ResponseStarted"]);
  response.destroy();
  await waitFor(3);
  expect(events[2]).toMatchObject({ stage: "ResponseComplete", verb: "watch", responseStatus: { code: 200 } });
});

test("an unacceptable response type and a fault of the server are recorded as such", async () => {
  const { server, events, waitFor } = await start((request) => {
    if (request.path === "/fault") throw new TypeError("a bug");
    return environment.handle(request);
  });
  await get(server, configMaps, { accept: "image/png" });
  await waitFor(2);
  expect(events[1]).toMatchObject({ stage: "ResponseComplete", responseStatus: { reason: "NotAcceptable", code: 406 } });
  expect((await get(server, "/fault")).statusCode).toBe(500);
  await waitFor(4);
  expect(events[3]).toMatchObject({
    stage: "Panic",
    responseStatus: { code: 500, reason: "InternalError", message: "APIServer panic'd: a bug" },
  });
});

test("a full disk does not fail requests", async () => {
  const metrics = new AuditMetrics();
  const file = { path: "/dev/full", maxSize: 1, maxBackups: 0, maxAge: 0 };
  const log = await openAuditLog({ file, clock: systemClock, metrics, onError: () => undefined });
  const { server } = await start(environment.handle, log.write, metrics);
  for (let index = 0; index < 5; index++) expect((await get(server, configMaps)).statusCode).toBe(200);
  await server.close();
  await log.close();
  expect([...metrics.lines()]).toEqual(
    expect.arrayContaining([
      "apiserver_audit_event_total 10",
      'apiserver_audit_error_total{plugin="log"} 10',
      'apiserver_audit_level_total{level="Metadata"} 5',
    ]),
  );
});

test("a handler that fails with a Status is not a fault", async () => {
  const { server, events, waitFor } = await start(async () => {
    throw statusError("TooManyRequests", "later");
  });
  await get(server, configMaps);
  await waitFor(2);
  expect(events[1]).toMatchObject({ stage: "ResponseComplete", responseStatus: { reason: "TooManyRequests", code: 429 } });
});

test("a refused upgrade has the status of its response", async () => {
  const { server, events, waitFor } = await start(async () => ({
    kind: "upgrade",
    connect({ socket, onStatus }) {
      onStatus(403);
      socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    },
  }));
  const exec = "/api/v1/namespaces/default/pods/p/exec?command=a";
  expect((await get(server, exec, { connection: "Upgrade", upgrade: "SPDY/3.1" })).statusCode).toBe(403);
  await waitFor(3);
  expect(events.map(({ stage, responseStatus }) => [stage, responseStatus])).toEqual([
    ["RequestReceived", undefined],
    ["ResponseStarted", { metadata: {}, code: 403 }],
    ["ResponseComplete", { metadata: {}, code: 403 }],
  ]);
});
