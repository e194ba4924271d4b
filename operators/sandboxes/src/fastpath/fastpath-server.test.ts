import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FastPathService, SandboxStreams } from "@keelson/sandbox/protocol";
import { systemClock } from "@keelson/api-machinery/time";
import { authorizeCalls } from "./access/authorize-calls.ts";
import { createFastPathClient } from "./client.ts";
import { type FastPathServer, startFastPathServer } from "./fastpath-server.ts";

/** The maximum number of connections, and some more. */
const manyConnections = 260;
const token = "secret";
const noUser = (): Promise<never> => Promise.reject(new Error("not used"));
const identities = { authenticate: noUser, isAllowed: noUser };
const authorize = authorizeCalls({ staticToken: token, identities, clock: systemClock });
let server: FastPathServer;

beforeEach(async () => {
  server = await startFastPathServer({
    bindAddress: "127.0.0.1",
    port: 0,
    authorize,
    routes(router) {
      router.service(FastPathService, { listSandboxes: ({ namespace }) => ({ items: [{ sandboxName: namespace }] }) });
      router.service(SandboxStreams, {
        async *logs() {
          yield { data: Buffer.from("a".repeat(100_000)) };
          yield { data: Buffer.from("b") };
        },
      });
    },
  });
});

afterEach(() => server.close());

const post = (path: string, authorization: string): Promise<Response> =>
  fetch(`${server.url}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify({ namespace: "one" }),
  });

it("serves gRPC over HTTP/2 and Connect over HTTP/1.1 on one port, both with a token", async () => {
  const { fastPath, streams } = createFastPathClient({ baseUrl: server.url, token });
  expect((await fastPath.listSandboxes({ namespace: "two" })).items).toMatchObject([{ sandboxName: "two" }]);
  let bytes = 0;
  for await (const { data } of streams.logs({})) bytes += data.length;
  expect(bytes).toBe(100_001);
  const answer = await post("fastpath.v1.FastPathService/ListSandboxes", `Bearer ${token}`);
  expect(await answer.json()).toEqual({ items: [{ sandboxName: "one" }] });
  const refused = await post("fastpath.v1.FastPathService/ListSandboxes", "Bearer guessed");
  expect([refused.status, await refused.json()]).toMatchObject([401, { code: "unauthenticated" }]);
  const stranger = createFastPathClient({ baseUrl: server.url, token: "guessed" });
  await expect(stranger.fastPath.listSandboxes({})).rejects.toThrow(/bearer token required/);
});

it("answers what is not HTTP with an error, and closes open connections when it stops", async () => {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.end("nonsense\r\n\r\n");
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
  const silent = connect(Number(new URL(server.url).port), "127.0.0.1");
  await once(silent, "connect");
  const closed = once(silent, "close");
  silent.on("error", () => {});
  silent.resume();
  await server.close();
  await closed;
  server = await startFastPathServer({ bindAddress: "127.0.0.1", port: 0, authorize, routes: () => {} });
});

it("serves callers while others hold more connections than the maximum without authenticating", async () => {
  const { fastPath } = createFastPathClient({ baseUrl: server.url, token });
  await fastPath.listSandboxes({});
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
  const held = Array.from({ length: manyConnections }, () => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    socket.on("error", () => {}).resume();
    socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings]));
    return socket;
  });
  await Promise.all(held.map((socket) => once(socket, "connect")));
  await once(held[0] ?? expect.fail(), "close");
  const late = createFastPathClient({ baseUrl: server.url, token });
  for (const client of [fastPath, late.fastPath]) expect((await client.listSandboxes({})).items).toHaveLength(1);
  for (const socket of held) socket.destroy();
});

it("answers a call without credentials before its body has arrived, in the protocol of the call", async () => {
  const session = connectHttp2(server.url);
  const answer = async (type: string): Promise<readonly [IncomingHttpHeaders, string]> => {
    const headers = { ":method": "POST", ":path": "/fastpath.v1.FastPathService/ListSandboxes", "content-type": type };
    const call = session.request(headers);
    call.on("error", () => {});
    // The begin of a message of 1 MB.
    call.write(Buffer.from([0, 0, 0x0f, 0xff, 0xff, 1, 2, 3]));
    const [found] = (await once(call, "response")) as [IncomingHttpHeaders];
    return [found, await text(call)];
  };
  for (const type of ["application/grpc", "application/grpc+proto", "application/grpc-web+proto"])
    expect((await answer(type))[0]).toMatchObject({ ":status": 200, "content-type": type, "grpc-status": "16" });
  const [stream, end] = await answer("application/connect+json");
  expect([stream[":status"], end.slice(5)]).toEqual([200, expect.stringContaining("unauthenticated")]);
  const [unary, body] = await answer("application/json");
  expect([unary[":status"], JSON.parse(body)]).toMatchObject([401, { code: "unauthenticated" }]);
  session.destroy();
  const headers = { "content-type": "application/json", "content-length": "100000" };
  const sent = httpRequest(`${server.url}/fastpath.v1.FastPathService/ListSandboxes`, { method: "POST", headers });
  sent.on("error", () => {});
  sent.write("{");
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  expect(response.statusCode).toBe(401);
  response.on("error", () => {});
  sent.destroy();
});

it("accepts calls without credentials if it is open, but not those that a page in a browser can make", async () => {
  await server.close();
  server = await startFastPathServer({
    ...{ bindAddress: "127.0.0.1", port: 0 },
    authorize: authorizeCalls({ staticToken: token, identities, clock: systemClock, isOpen: true }),
    routes: (router) => router.service(FastPathService, { listSandboxes: () => ({ items: [] }) }),
  });
  const statusOf = async (headers: Readonly<Record<string, string>>): Promise<number> => {
    const url = `${server.url}/fastpath.v1.FastPathService/ListSandboxes`;
    const sent = httpRequest(url, { method: "POST", headers: { "content-type": "application/json", ...headers } });
    sent.end("{}");
    const [response] = (await once(sent, "response")) as [IncomingMessage];
    response.resume();
    return response.statusCode ?? 0;
  };
  const answers: readonly Readonly<Record<string, string>>[] = [
    {},
    { origin: "http://localhost" },
    { host: "rebound.example.org" },
    { authorization: "Bearer guessed" },
  ];
  expect(await Promise.all(answers.map(statusOf))).toEqual([200, 403, 403, 401]);
});

it("forgets TLS connections that have ended, whether their handshake succeeded or not", async () => {
  const now = Date.now();
  const validity = { notBefore: new Date(now - 3_600_000), notAfter: new Date(now + 3_600_000) };
  const authority = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
  const pair = await issueCertificate(authority, { commonName: "one", usage: "server", hosts: ["127.0.0.1"], ...validity });
  await server.close();
  server = await startFastPathServer({
    ...{ bindAddress: "127.0.0.1", port: 0, authorize, tls: { ...pair, clientAuthorities: undefined } },
    routes: (router) => router.service(FastPathService, { listSandboxes: () => ({ items: [] }) }),
  });
  const port = Number(new URL(server.url).port);
  const ca = authority.certificate;
  const connectOnce = async (doesTrust: boolean): Promise<void> => {
    const socket = connectTls({ port, host: "127.0.0.1", ...(doesTrust && { ca }), ALPNProtocols: ["h2"] });
    socket.on("error", () => {}).once("secureConnect", () => socket.destroy());
    await new Promise((resolve) => socket.once("close", resolve));
  };
  for (let count = 0; count < manyConnections; count += 10)
    await Promise.all(Array.from({ length: 10 }, (_, index) => connectOnce(index % 2 === 0)));
  const list = () =>
    createFastPathClient({ baseUrl: server.url.replace("http:", "https:"), token, tls: { ca } }).fastPath.listSandboxes({});
  await expect.poll(async () => (await list()).items).toEqual([]);
});
