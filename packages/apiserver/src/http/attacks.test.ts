import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { connect } from "node:tls";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthenticator } from "../auth/authentication/authenticator.ts";
import { createStaticTokens } from "../auth/authentication/static-tokens.ts";
import { ensurePki, type Pki } from "../auth/certificates/pki.ts";
import { systemUser } from "../system-user.ts";
import { startTestEnvironment, type TestEnvironment } from "../testing/test-environment.ts";
import { startHttpServer } from "./server/http-server.ts";
import type { HttpServer } from "./server/http-server-options.ts";
import { type Attack, attacks, configMap, json, portsFrom, yaml } from "./testing/hostile-bodies.ts";

const tokens = { good: "token-of-the-admin", powerless: "token-of-a-nobody" };
const maps = "/api/v1/namespaces/default/configmaps";
/** Maximum stall of the event loop. The attacks stalled it for 2 to 9 s before; now for tens of milliseconds on an idle machine. */
const maxStallMs = 1_000;

let directory: string;
let pki: Pki;
let environment: TestEnvironment;
let server: HttpServer;
let agent: Agent;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-attacks-"));
  pki = await ensurePki(directory, Date.now());
  environment = await startTestEnvironment({ clock: systemClock });
  server = await startHttpServer({
    handle: environment.handle,
    authenticate: createAuthenticator({
      tokens: [
        createStaticTokens([
          [tokens.good, systemUser],
          [tokens.powerless, { username: "nobody", groups: [] }],
        ]),
      ],
      authorizer: environment.server.authorizer,
      now: () => Date.now(),
    }),
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    toTable: () => ({ columnDefinitions: [], rows: [] }),
    port: 0,
    clock: systemClock,
    newId: randomUUID,
    limits: { headersMs: 500, requestMs: 3_000 },
  });
  agent = new Agent({ ca: pki.authority.certificate, keepAlive: false });
});
afterAll(async () => {
  agent.destroy();
  await server.close();
  await environment.stop();
  await rm(directory, { recursive: true, force: true });
});

function send({ method = "POST", path = maps, type, body }: Attack, token: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": type, "content-length": Buffer.byteLength(body) };
    const request = httpsRequest(`${server.url}${path}`, { method, agent, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    let status: number | undefined;
    request.on("response", (response) => (status = response.statusCode));
    // The server closes the connection without reading a rejected body.
    request.on("error", (error) => (status === undefined ? reject(error) : undefined));
    request.end(body);
  });
}

/** Runs `work` and returns its result and the longest time between two turns of the event loop. */
async function measured<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly stallMs: number }> {
  let last = performance.now();
  let stallMs = 0;
  let isDone = false;
  const tick = (): void => {
    const now = performance.now();
    stallMs = Math.max(stallMs, now - last);
    last = now;
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  const result = await work();
  isDone = true;
  return { result, stallMs };
}

describe("a hostile body", () => {
  beforeAll(async () => {
    expect(await send({ type: json, body: configMap("target", '"data":{"a":"b"}') }, tokens.good)).toBe(201);
    const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"ports"},"spec":{"ports":[${portsFrom(1, "")}]}}`;
    expect(await send({ path: "/api/v1/namespaces/default/services", type: json, body: service }, tokens.good)).toBe(201);
  });

  test.each(attacks)("is not read for a user without permissions: %s", async (_, attack) => {
    const before = performance.eventLoopUtilization();
    const { result, stallMs } = await measured(() => send(attack, tokens.powerless));
    expect(result).toBe(403);
    expect(stallMs).toBeLessThan(maxStallMs);
    expect(performance.eventLoopUtilization(before).active).toBeLessThan(2_000);
  });

  test.each(attacks)(
    "is rejected within limits without blocking the event loop: %s",
    { timeout: 30_000 },
    async (_, attack, expected) => {
      const { result, stallMs } = await measured(() => send(attack, tokens.good));
      expect(expected).toContain(result);
      expect(stallMs).toBeLessThan(maxStallMs);
    },
  );

  test("with a selector of 700,000 requirements is reviewed for any user without blocking the event loop", async () => {
    const selector = `{"rawSelector":"${"a=b,".repeat(700_000)}"}`;
    const body = `{"spec":{"resourceAttributes":{"verb":"list","resource":"pods","labelSelector":${selector}}}}`;
    const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    const { result, stallMs } = await measured(() => send({ path, type: json, body }, tokens.powerless));
    expect(result).toBe(201);
    expect(stallMs).toBeLessThan(maxStallMs);
  });

  test("in YAML is parsed while other requests are served", { timeout: 30_000 }, async () => {
    const document = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: large}\ndata:\n${Array.from({ length: 12_000 }, (_, index) => `  k${index}: "some value"\n`).join("")}`;
    let isParsed = false;
    const large = send({ type: yaml, body: document }, tokens.good).finally(() => (isParsed = true));
    const small = await send({ type: json, body: configMap("small", '"data":{}') }, tokens.good);
    expect([small, isParsed]).toEqual([201, false]);
    expect(await large).toBe(201);
  });
});

test.each([
  ["GET", `${maps}/${"%2e".repeat(9_000)}`, 404],
  ["GET", `/api/v1/namespaces/${"x".repeat(9_000)}/configmaps`, 200],
  ["DELETE", `${maps}/${"x".repeat(9_000)}`, 404],
])(
  "%s of an object or namespace whose name no object can have is not an error of the server",
  async (method, path, expected) => {
    expect(await send({ method, path, type: json, body: "" }, tokens.good)).toBe(expected);
  },
);

test("rejects a name that does not fit into a key of the storage", async () => {
  const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
  const role = (name: string): string =>
    `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"${name}"},"rules":[]}`;
  expect(await send({ path: roles, type: json, body: role("r".repeat(1_501)) }, tokens.good)).toBe(422);
  expect(await send({ path: roles, type: json, body: role("r".repeat(1_500)) }, tokens.good)).toBe(201);
});

describe("a slow client", () => {
  const idle = async (bytes: string): Promise<string> => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    await once(socket, "secureConnect");
    let text = "";
    socket.on("data", (chunk) => (text += String(chunk)));
    // A server that closes while bytes are on their way resets the connection.
    socket.on("error", () => undefined);
    socket.write(bytes);
    await new Promise((resolve) => socket.once("close", resolve));
    return text;
  };

  test("that never completes its headers is disconnected", { timeout: 60_000 }, async () => {
    const texts = await Promise.all(Array.from({ length: 20 }, () => idle("GET /api HTTP/1.1\r\nhost: a\r\nx: ")));
    for (const text of texts) expect(text).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("with a selector beyond the header limit is rejected", async () => {
    const text = await idle(`GET ${maps}?labelSelector=${"a,".repeat(33_000)} HTTP/1.1\r\nhost: a\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1\.1 431 /);
  });
});
