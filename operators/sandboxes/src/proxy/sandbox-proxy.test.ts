import { once } from "node:events";
import { createServer, type IncomingMessage, request, type RequestOptions, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { createVirtualClock, type VirtualClock } from "@keelson/api-machinery/testing";
import { type Cache, silentLogger } from "@keelson/controller";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Sandbox } from "../api/sandbox.ts";
import { ProxyAccess } from "./proxy-access.ts";
import { type SandboxProxy, startSandboxProxy } from "./sandbox-proxy.ts";
import type { SignedPort } from "./url-signer.ts";

const id = "a".repeat(32);
const host = `8080-${id}.boxes.example`;
/** What the signer of these tests accepts for a port. */
const signatureOf = ({ sandboxId, port }: SignedPort): string => `signed-${port}-${sandboxId}`;
const signature = signatureOf({ sandboxId: id, port: 8080 });
const sandbox = {
  metadata: { name: "one", namespace: "team" },
  spec: { exposedPorts: [8080, 8081] },
  status: { phase: "Running", sandboxID: id },
} as unknown as Sandbox;

/** The program in the sandbox, and the requests that it got. */
let program: Server;
let received: IncomingMessage[];
/** The program's ends of WebSockets, and the proxy's ends of the connections to the program. */
let accepted: Socket[];
let connections: Socket[];
let proxy: SandboxProxy;
let reviewed: unknown[];
let phase: string;
let clock: VirtualClock;
/** Waits before a user of the cluster is authenticated. */
let review: () => Promise<void>;

beforeEach(async () => {
  [received, reviewed, phase, review] = [[], [], "Running", () => Promise.resolve()];
  [accepted, connections] = [[], []];
  program = createServer((incoming, response) => {
    received.push(incoming);
    if (incoming.url === "/hold") return;
    if (incoming.url === "/hints") return void incoming.socket.write("HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100));
    if (incoming.url === "/switch")
      return void incoming.socket.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    response.setHeader("clear-site-data", '"cookies"');
    response.setHeader("set-cookie", [
      "a=1; Domain=boxes.example; Path=/",
      "keelson-sandbox=stolen; Path=/",
      "Keelson-Sandbox =stolen; Path=/",
    ]);
    incoming.pipe(response);
  });
  program.on("upgrade", (incoming: IncomingMessage, socket: Socket) => {
    received.push(incoming);
    accepted.push(socket);
    socket.on("error", () => {});
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n",
    );
    if (incoming.url !== "/hold") socket.pipe(socket);
  });
  program.listen(0, "127.0.0.1");
  await once(program, "listening");
  await start();
});

afterEach(async () => {
  await proxy.close();
  program.closeAllConnections();
  program.close();
});

async function start(isSecure = false): Promise<void> {
  const { port } = program.address() as AddressInfo;
  const list = (_: unknown, { index: [, wanted] }: { index: readonly [string, string] }) =>
    wanted === id ? [{ ...sandbox, status: { ...sandbox.status, phase } }] : [];
  const identities = {
    authenticate: (token: string) =>
      review().then(() => (token.startsWith("user-") ? { username: token.slice(5), groups: [] } : undefined)),
    isAllowed: ({ username }: { readonly username: string }, attributes: unknown) => {
      reviewed.push(attributes);
      return Promise.resolve(username === "allowed");
    },
  };
  clock = createVirtualClock();
  const expiresAtMs = clock.now() + 60_000;
  proxy = await startSandboxProxy({
    ...{ bindAddress: "127.0.0.1", port: 0, clock, log: silentLogger, isSecure },
    access: new ProxyAccess({
      ...{ domain: "boxes.example", isSecure, cache: { list } as unknown as Cache, staticToken: "static", identities },
      signer: { verify: (target, each) => (each === signatureOf(target) ? expiresAtMs : undefined) },
    }),
    connect: () => {
      const connection = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      connections.push(connection);
      return Promise.resolve(connection);
    },
  });
}

async function fetchRaw(path: string, options: RequestOptions = {}, body?: string) {
  const sent = request({
    ...options,
    port: new URL(proxy.url).port,
    host: "127.0.0.1",
    path,
    headers: { host, ...options.headers },
  });
  sent.on("error", () => {}).end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, text: await text(response) };
}

const cookie = `keelson-sandbox=${signature}`;

/** A connection to the proxy on which a test writes what no HTTP client would send. */
async function openRaw(sent: string): Promise<Socket> {
  const socket = connect({ port: Number(new URL(proxy.url).port), host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => {}).write(sent);
  await once(socket, "connect");
  return socket;
}

/** The status of the first answer, once the proxy has closed the connection; 0 without a response. */
async function statusOf(...lines: readonly string[]): Promise<number> {
  const socket = await openRaw(lines.join("\r\n"));
  const answer = await text(socket);
  socket.destroy();
  return Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1] ?? 0);
}

/** Opens a WebSocket; resolves with the socket, or with the answer of a request that was rejected. */
async function upgrade(headers: Readonly<Record<string, string>> = {}, method = "GET") {
  const sent = request({
    ...{ port: new URL(proxy.url).port, host: "127.0.0.1", path: "/socket", method },
    headers: { host, cookie, connection: "Upgrade", upgrade: "websocket", "sec-websocket-key": "k", ...headers },
  });
  sent.on("error", () => {}).end();
  sent.once("upgrade", (_answer, socket) => socket.on("error", () => {}));
  return Promise.race([
    once(sent, "upgrade") as Promise<[IncomingMessage, Socket]>,
    once(sent, "response") as Promise<[IncomingMessage]>,
  ]);
}

describe("the proxy to ports of sandboxes", () => {
  it("forwards requests with a signature and removes it, and the credentials of the proxy", async () => {
    const referer = `http://${host}/style.css?keelson-signature=${signature}&v=1`;
    const headers = {
      referer,
      cookie: `b=2; ${cookie}`,
      "x-forwarded-for": "1.2.3.4",
      te: "x",
      connection: "x-hop",
      "x-hop": "1",
    };
    const answer = await fetchRaw(`/path?q=%2F&keelson-signature=${signature}`, { method: "POST", headers }, "hello");
    expect([answer.status, answer.text]).toEqual([200, "hello"]);
    expect(answer.headers["set-cookie"]).toEqual(["a=1; Path=/"]);
    expect(answer.headers).not.toHaveProperty("clear-site-data");
    expect(received[0]?.url).toBe("/path?q=%2F");
    expect(received[0]?.headers).toMatchObject({
      host,
      cookie: "b=2",
      referer: `http://${host}/style.css?v=1`,
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-proto": "http",
    });
    expect(received[0]?.headers).not.toHaveProperty("x-hop");
    expect(received[0]?.headers).not.toHaveProperty("te");
  });

  it("exchanges the signature of a page for a cookie of the host, which then grants access", async () => {
    const page = { headers: { accept: "text/html,*/*" } };
    const answer = await fetchRaw(`//evil.example/?keelson-signature=${signature}&x=1`, page);
    expect([answer.status, answer.headers.location]).toEqual([303, "/evil.example/?x=1"]);
    expect(answer.headers["set-cookie"]).toEqual([`${cookie}; Path=/; Max-Age=60; HttpOnly; SameSite=Lax`]);
    expect(received).toEqual([]);
    expect((await fetchRaw("/", { headers: { cookie } })).status).toBe(200);
    expect((await fetchRaw("/", { headers: { cookie: `keelson-sandbox=x; ${cookie}` } })).status).toBe(200);
  });

  it("marks the cookie as secure if clients use TLS", async () => {
    await proxy.close();
    await start(true);
    const answer = await fetchRaw(`/?keelson-signature=${signature}`, { headers: { accept: "text/html" } });
    expect(answer.headers["set-cookie"]?.[0]).toBe(`__Host-${cookie}; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure`);
    expect((await fetchRaw("/", { headers: { cookie } })).status).toBe(401);
    expect((await fetchRaw("/", { headers: { cookie: `__Host-${cookie}` } })).status).toBe(200);
    const from = async (origin: string) => (await fetchRaw("/", { headers: { cookie: `__Host-${cookie}`, origin } })).status;
    expect([await from(`https://${host}`), await from(`http://${host}`)]).toEqual([200, 403]);
  });

  it("accepts the cookie from pages of the same origin only", async () => {
    const from = (headers: Readonly<Record<string, string>>) =>
      fetchRaw("/", { method: "POST", headers: { cookie, ...headers } });
    expect((await from({ origin: `http://${host}`, "sec-fetch-site": "same-origin" })).status).toBe(200);
    expect((await from({ origin: `http://8080-${"b".repeat(32)}.boxes.example` })).status).toBe(403);
    expect((await from({ origin: "null" })).status).toBe(403);
    expect((await from({ origin: `http://${host}`, host: `${host}:99999` })).status).toBe(403);
    const frame = { "sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" };
    expect((await from(frame)).status).toBe(403);
    expect((await from({ "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" })).status).toBe(403);
    expect(
      (await fetchRaw("/", { headers: { cookie, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" } })).status,
    ).toBe(200);
  });

  it("authorizes bearer tokens by permission to forward ports, and hides them from the sandbox", async () => {
    const as = (token: string, to = host) => fetchRaw("/", { headers: { authorization: `Bearer ${token}`, host: to } });
    expect((await as("static")).status).toBe(200);
    expect((await as("user-allowed")).status).toBe(200);
    expect(received.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
    expect(reviewed).toMatchObject([
      {
        resourceAttributes: {
          verb: "create",
          resource: "sandboxes",
          subresource: "portforward",
          namespace: "team",
          name: "one",
        },
      },
    ]);
    expect((await as("user-denied")).status).toBe(403);
    // As for a sandbox that exists.
    expect((await as("user-allowed", `8080-${"b".repeat(32)}.boxes.example`)).status).toBe(403);
    expect((await as("unknown")).status).toBe(401);
  });

  it("passes the credentials of the program on with a signature, but never its own token", async () => {
    const as = (authorization: string) => fetchRaw("/", { headers: { cookie, authorization } });
    await as("Basic dXNlcg==");
    await as("Bearer static");
    expect(received.map(({ headers }) => headers.authorization)).toEqual(["Basic dXNlcg==", undefined]);
  });

  it.each([
    ["no credentials", "/", {}, 401],
    ["a signature of another port", `/?keelson-signature=${signatureOf({ sandboxId: id, port: 8081 })}`, {}, 403],
    ["a cookie of another port", "/", { cookie: `keelson-sandbox=${signatureOf({ sandboxId: id, port: 8081 })}` }, 401],
    ["a host of another domain", `/?keelson-signature=${signature}`, { host: "127.0.0.1" }, 421],
    ["a target that is a URL", `http://${host}/`, { cookie }, 400],
  ])("rejects requests with %s", async (_, path, headers, status) => {
    expect((await fetchRaw(path, { headers })).status).toBe(status);
    expect(received).toEqual([]);
  });

  it("reaches exposed ports of running sandboxes only", async () => {
    const to = (port: number, sandboxId = id) =>
      fetchRaw(`/?keelson-signature=${signatureOf({ sandboxId, port })}`, {
        headers: { host: `${port}-${sandboxId}.boxes.example` },
      });
    expect((await to(5758)).status).toBe(404);
    expect((await to(8080, "b".repeat(32))).status).toBe(404);
    phase = "Paused";
    expect((await to(8080)).status).toBe(503);
    expect(received).toEqual([]);
  });

  it("sends the body of every method with its length, so that the sandbox sees one request", async () => {
    const smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    const answer = await fetchRaw("/", { method: "GET", headers: { cookie, "transfer-encoding": "chunked" } }, smuggled);
    expect(answer.text).toBe(smuggled);
    expect(received).toHaveLength(1);
    const headers = { cookie, connection: "content-length", "content-length": String(smuggled.length) };
    expect((await fetchRaw("/", { headers }, smuggled)).text).toBe(smuggled);
    expect(received).toHaveLength(2);
  });

  const head = [`Host: ${host}`, `Cookie: ${cookie}`, "Connection: close"];
  it.each([
    [
      "both lengths of a body",
      ["POST / HTTP/1.1", ...head, "Content-Length: 3", "Transfer-Encoding: chunked", "", "0", "", ""],
    ],
    ["two lengths", ["POST / HTTP/1.1", ...head, "Content-Length: 0", "Content-Length: 3", "", "abc"]],
    ["another transfer encoding", ["POST / HTTP/1.1", ...head, "Transfer-Encoding: gzip, chunked", "", "0", "", ""]],
    ["a space before the colon of a header", ["POST / HTTP/1.1", ...head, "Transfer-Encoding : chunked", "", "0", "", ""]],
    ["two hosts", ["GET / HTTP/1.1", ...head, "Host: other.example", "", ""]],
    ["a target that is a host", ["CONNECT 127.0.0.1:22 HTTP/1.1", ...head, "", ""]],
    ["a target that is not a path", ["OPTIONS * HTTP/1.1", ...head, "", ""]],
  ])("rejects requests with %s", async (_, lines) => {
    expect([0, 400, 501]).toContain(await statusOf(...lines));
    expect(received).toEqual([]);
  });

  it("passes a folded header on in one line, or not at all", async () => {
    await statusOf("GET / HTTP/1.1", ...head, "X-Folded: one", " Transfer-Encoding: chunked", "", "");
    expect(received.map(({ headers }) => headers["transfer-encoding"]).filter(Boolean)).toEqual([]);
  });

  it("rejects an answer that switches protocols without a request to do so", async () => {
    expect((await fetchRaw("/switch", { headers: { cookie } })).status).toBe(502);
    expect((await fetchRaw("/hints", { headers: { cookie } })).status).toBe(502);
  });

  it("closes connections of rejected upgrades, even if the client keeps its end open", async () => {
    const socket = await openRaw(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(String(answer)).toContain("HTTP/1.1 400 ");
    // The client's end is still open: a write finds the connection closed.
    const writing = setInterval(() => socket.write("x"), 20);
    await closed;
    clearInterval(writing);
  });

  it("closes WebSockets and requests in progress when their access ends", async () => {
    const [, socket] = await upgrade();
    const holding = fetchRaw("/hold", { headers: { cookie } });
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(2);
    const closed = new Promise((resolve) => socket?.once("close", resolve));
    const failed = expect(holding).rejects.toThrow("socket hang up");
    await clock.advance(60_000);
    await Promise.all([closed, failed]);
  });

  it.each(["client", "program"])("closes both ends of a WebSocket when the %s ends", async (side) => {
    const status = async () => (await fetchRaw("/", { headers: { cookie } })).status;
    const opening = `GET /hold HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n`;
    // As many as a sandbox may have: a further request shows whether they still count.
    const clients = await Promise.all(Array.from({ length: 128 }, () => openRaw(opening)));
    await Promise.all(clients.map((client) => once(client, "data")));
    expect(await status()).toBe(429);
    const opened = [...connections];
    for (const socket of side === "client" ? clients : accepted) socket.end();
    await expect.poll(() => opened.filter(({ destroyed }) => !destroyed), { timeout: 20_000 }).toEqual([]);
    await expect.poll(status, { timeout: 20_000 }).toBe(200);
    for (const socket of [...clients, ...accepted]) socket.destroy();
  });

  it("passes an upgrade on only if the client's connection names it", async () => {
    expect((await fetchRaw("/", { headers: { cookie, upgrade: "websocket", connection: "close" } })).status).toBe(200);
    expect(received[0]?.headers).not.toHaveProperty("upgrade");
    expect(received[0]?.headers.connection).toBe("close");
  });

  it("connects WebSockets, and rejects those of other origins", async () => {
    const [answer, socket] = await upgrade({ origin: `http://${host}` });
    expect([answer.statusCode, answer.headers["sec-websocket-accept"]]).toEqual([101, "x"]);
    socket?.write("ping");
    const [data] = socket === undefined ? [] : ((await once(socket, "data")) as [Buffer]);
    expect(String(data)).toBe("ping");
    expect(received[0]?.headers).toMatchObject({ upgrade: "websocket", "sec-websocket-key": "k", host });
    expect(received[0]?.headers.cookie).toBeUndefined();
    socket?.destroy();
    expect((await upgrade({ origin: "http://evil.example" }))[0].statusCode).toBe(403);
    expect((await upgrade({ upgrade: "h2c" }))[0].statusCode).toBe(400);
    expect((await upgrade({ upgrade: "websocket, h2c" }))[0].statusCode).toBe(400);
    expect((await upgrade({ "sec-websocket-key": "", "content-length": "5" }))[0].statusCode).toBe(400);
    expect((await upgrade({}, "POST"))[0].statusCode).toBe(400);
  });

  it("limits the requests to one sandbox at the same time", async () => {
    const held: Socket[] = [];
    const { port } = new URL(proxy.url);
    for (let count = 0; count < 128; count += 1) {
      const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
      socket.write(`GET /hold HTTP/1.1\r\nhost: ${host}\r\ncookie: ${cookie}\r\n\r\n`);
      held.push(socket);
    }
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(128);
    expect((await fetchRaw("/", { headers: { cookie } })).status).toBe(429);
    for (const socket of held) socket.destroy();
    await expect.poll(async () => (await fetchRaw("/", { headers: { cookie } })).status, { timeout: 20_000 }).toBe(200);
  });

  it("counts no requests of clients that have left, including in a pipeline or during a review", async () => {
    const status = async () => (await fetchRaw("/", { headers: { cookie } })).status;
    const held = `GET /hold HTTP/1.1\r\nhost: ${host}\r\n`;
    const pipeline = await openRaw(`${held}cookie: ${cookie}\r\n\r\n`.repeat(128));
    await expect.poll(() => received.length, { timeout: 20_000 }).toBe(128);
    expect(await status()).toBe(429);
    pipeline.destroy();
    await expect.poll(status, { timeout: 20_000 }).toBe(200);
    let [finish, reviews] = [(): void => {}, 0];
    const finished = new Promise<void>((resolve) => (finish = resolve));
    review = () => {
      reviews += 1;
      return finished;
    };
    const clients = Array.from({ length: 128 }, () => openRaw(`${held}authorization: Bearer user-allowed\r\n\r\n`));
    const sockets = await Promise.all(clients);
    await expect.poll(() => reviews, { timeout: 20_000 }).toBe(128);
    for (const socket of sockets) socket.destroy();
    expect(await status()).toBe(200);
    finish();
    await expect.poll(status, { timeout: 20_000 }).toBe(200);
  });
});
