import { createVirtualClock } from "@keelson/api-machinery/testing";
import { getEventListeners } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createHttpTransport, type HttpTransportOptions } from "./http-transport.ts";
import { eventSource, type Script, serveScript } from "../testing/scripted-server.ts";
import { isTransportError, type TransportErrorCode } from "./transport-error.ts";

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function serve(script: Script, options: Partial<HttpTransportOptions> = {}) {
  const server = await serveScript(script);
  const transport = createHttpTransport({ server: server.url, ...options });
  cleanUps.push(
    () => server.stop(),
    () => transport.close(),
  );
  return { server, transport };
}

/** A server that writes these bytes to every client, and then ends or breaks the connection. */
async function serveBytes(pieces: readonly (string | Buffer)[], ending: "end" | "keep" = "end"): Promise<string> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      for (const piece of pieces) socket.write(piece);
      if (ending === "end") socket.end();
    });
    cleanUps.push(async () => void socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanUps.push(async () => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const isCode = (code: TransportErrorCode) => (error: unknown) => isTransportError(error, code);
const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

describe("http transport", () => {
  test("reports a closed port as Unreachable", async () => {
    const server = await serveScript(() => ({ status: 200, body: {} }));
    await server.stop();
    const transport = createHttpTransport({ server: server.url });
    cleanUps.push(() => transport.close());
    await expect(transport.request({ method: "POST", path: "/x", body: {} })).rejects.toSatisfy(isCode("Unreachable"));
  });

  test("connects to a Unix socket instead of the host of the URL", async () => {
    const folder = mkdtempSync(join(tmpdir(), "keelson-"));
    const socketPath = join(folder, "server.sock");
    const server = createHttpServer((request, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(
        request.url === "/w" ? '{"type":"ADDED","object":{}}\n' : JSON.stringify({ token: request.headers.authorization }),
      );
    });
    await new Promise<void>((resolve) => server.listen(socketPath, resolve));
    const transport = createHttpTransport({ server: "http://localhost", socketPath, token: "secret" });
    cleanUps.push(
      async () => rmSync(folder, { recursive: true }),
      async () => void server.close(),
      () => transport.close(),
    );
    expect((await transport.request({ method: "GET", path: "/x" })).body).toEqual({ token: "Bearer secret" });
    const seen: string[] = [];
    for await (const event of await transport.watch({ method: "GET", path: "/w" })) seen.push(event.type);
    expect(seen).toEqual(["ADDED"]);
  });

  test("throws if a watch ends within a line", async () => {
    const url = await serveBytes([`${head}connection: close\r\n\r\n{"type":"ADDED","object":{}}\n{"type":"ADD`]);
    const transport = createHttpTransport({ server: url });
    cleanUps.push(() => transport.close());
    const watch = await transport.watch({ method: "GET", path: "/w" });
    const seen: string[] = [];
    const read = async (): Promise<void> => {
      for await (const event of watch) seen.push(event.type);
    };
    await expect(read()).rejects.toSatisfy(isCode("InvalidResponse"));
    expect(seen).toEqual(["ADDED"]);
  });

  test.each(["not json\n", '{"type":"WHAT","object":{}}\n', '{"type":"ADDED"}\n', "null\n"])(
    "throws on the line %j instead of passing over it",
    async (line) => {
      const url = await serveBytes([`${head}connection: close\r\n\r\n${line}`]);
      const transport = createHttpTransport({ server: url });
      cleanUps.push(() => transport.close());
      const watch = await transport.watch({ method: "GET", path: "/w" });
      await expect(watch[Symbol.asyncIterator]().next()).rejects.toSatisfy(isCode("InvalidResponse"));
    },
  );

  test("reports bytes sent and received, and retries", async () => {
    const { transport } = await serve(({ body }) => ({ status: 200, body: { grüße: body } }));
    const answer = await transport.request({ method: "POST", path: "/x", body: "ü" });
    expect(answer.wire).toEqual({ sentBytes: 4, receivedBytes: Buffer.byteLength('{"grüße":"ü"}'), repeats: 0 });
    let asked = 0;
    const flaky: Server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", () => {
        if (asked++ === 0) socket.destroy();
        else socket.end(`${head}content-length: 2\r\nconnection: close\r\n\r\n{}`);
      });
    });
    await new Promise<void>((resolve) => flaky.listen(0, "127.0.0.1", resolve));
    cleanUps.push(async () => void flaky.close());
    const other = createHttpTransport({ server: `http://127.0.0.1:${(flaky.address() as AddressInfo).port}` });
    cleanUps.push(() => other.close());
    expect((await other.request({ method: "GET", path: "/x" })).wire).toEqual({ sentBytes: 0, receivedBytes: 2, repeats: 1 });
  });

  test.each(["one by one", "in batches"])(
    "gives what came before a line that cannot be read, %s, and then throws",
    async (how) => {
      const lines = [
        '{"type":"ADDED","object":{"a":1}}',
        '{"type":"MODIFIED","object":{"a":2}}',
        "not json",
        '{"type":"ADDED","object":{}}',
      ];
      const url = await serveBytes([`${head}connection: close\r\n\r\n${lines.map((line) => `${line}\n`).join("")}`]);
      const transport = createHttpTransport({ server: url });
      cleanUps.push(() => transport.close());
      const watch = await transport.watch({ method: "GET", path: "/w" });
      const seen: unknown[] = [];
      const read = async (): Promise<void> => {
        if (how === "one by one") for await (const event of watch) seen.push(event);
        else for await (const events of watch.batches?.() ?? []) seen.push(...events);
      };
      await expect(read()).rejects.toSatisfy(isCode("InvalidResponse"));
      expect(seen).toEqual([
        { type: "ADDED", object: { a: 1 } },
        { type: "MODIFIED", object: { a: 2 } },
      ]);
    },
  );

  test("fails a watch that is silent for 5 s longer than its timeout, and not before", async () => {
    const clock = createVirtualClock();
    const source = eventSource();
    const { transport } = await serve(() => ({ events: source.events, ending: "clean" }), { clock });
    const watch = await transport.watch({ method: "GET", path: "/w", query: { timeoutSeconds: "300" } });
    const iterator = watch[Symbol.asyncIterator]();
    await clock.advance(200_000);
    source.send({ type: "BOOKMARK", object: { metadata: { resourceVersion: "1" } } });
    expect((await iterator.next()).value?.type).toBe("BOOKMARK");
    await clock.advance(304_999);
    expect(clock.pendingTimers).toBe(1);
    const next = iterator.next();
    next.catch(() => {});
    await clock.advance(1);
    await expect(next).rejects.toSatisfy(isCode("Timeout"));
    expect(clock.pendingTimers).toBe(0);
  });

  test("watches do not use up the connections for requests", async () => {
    const { transport } = await serve(
      (request) => (request.path === "/w" ? { events: eventSource().events, ending: "clean" } : { status: 200, body: {} }),
      {
        maxConnections: 2,
      },
    );
    await Promise.all(Array.from({ length: 10 }, () => transport.watch({ method: "GET", path: "/w" })));
    expect((await transport.request({ method: "GET", path: "/r" })).status).toBe(200);
  });

  test("leaves no socket after an aborted watch and a close", async () => {
    const { server, transport } = await serve((request) =>
      request.path === "/w" ? { events: eventSource().events, ending: "clean" } : { status: 200, body: {} },
    );
    const watch = await transport.watch({ method: "GET", path: "/w" });
    await transport.request({ method: "GET", path: "/r" });
    expect(server.sockets.size).toBe(2);
    const closed = [...server.sockets].map((socket) => new Promise((resolve) => socket.on("close", resolve)));
    watch.close();
    await transport.close();
    await Promise.all(closed);
    expect(server.sockets.size).toBe(0);
  });

  test("leaves no listener on a signal that outlives its requests and watches", async () => {
    const source = eventSource();
    const { transport } = await serve(({ query }) =>
      query["watch"] === "true" ? { events: source.events, ending: "clean" } : { status: 200, body: {} },
    );
    const { signal } = new AbortController();
    for (let time = 0; time < 3; time++) {
      await transport.request({ method: "GET", path: "/x", signal });
      const watch = await transport.watch({ method: "GET", path: "/w", query: { watch: "true" }, signal });
      watch.close();
    }
    await expect.poll(() => getEventListeners(signal, "abort").length, { timeout: 5_000 }).toBe(0);
  });

  test("gets new credentials once if the server rejects them", async () => {
    const tokens = ["stale", "fresh"];
    const seen: unknown[] = [];
    const script: Script = (request) => {
      seen.push(request.headers["authorization"]);
      return { status: request.headers["authorization"] === "Bearer fresh" ? 200 : 401, body: {} };
    };
    let at = 0;
    const credentials = { get: async () => ({ token: tokens[at] ?? "fresh" }), invalidate: () => void at++ };
    const { transport } = await serve(script, { credentials });
    expect((await transport.request({ method: "GET", path: "/r" })).status).toBe(200);
    expect(seen).toEqual(["Bearer stale", "Bearer fresh"]);
  });

  test("sends impersonation with every request", async () => {
    const { transport } = await serve((request) => ({ status: 200, body: request.headers }), {
      impersonate: { user: "jane", groups: ["a", "b"], extra: { "example.org/Scopes": ["x"] } },
    });
    const { body } = await transport.request({ method: "GET", path: "/r" });
    expect(body).toMatchObject({
      "impersonate-user": "jane",
      "impersonate-group": "a, b",
      "impersonate-extra-example.org%2fscopes": "x",
    });
  });

  test("keeps the path of the server URL", async () => {
    const server = await serveScript((request) => ({ status: 200, body: request.path }));
    const transport = createHttpTransport({ server: `${server.url}/k8s/clusters/c1/` });
    cleanUps.push(
      () => server.stop(),
      () => transport.close(),
    );
    expect((await transport.request({ method: "GET", path: "/api/v1/pods" })).body).toBe("/k8s/clusters/c1/api/v1/pods");
  });

  test.each(["nonsense", "ftp://host"])("rejects the server %j", (server) => {
    expect(() => createHttpTransport({ server })).toThrow(/server "/);
  });

  test("streams bytes as they arrive, until the reader closes the stream", async () => {
    const url = await serveBytes(
      [`HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n`],
      "keep",
    );
    const transport = createHttpTransport({ server: url });
    cleanUps.push(() => transport.close());
    const stream = await transport.stream?.({ method: "GET", path: "/log" });
    const seen: string[] = [];
    for await (const chunk of stream ?? []) {
      seen.push(Buffer.from(chunk).toString());
      stream?.close();
    }
    expect(seen).toEqual(["first"]);
  });

  test("throws if a stream loses its connection, or the server rejects it", async () => {
    const cut = await serveBytes([`HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nhalf`]);
    const broken = createHttpTransport({ server: cut });
    cleanUps.push(() => broken.close());
    const read = async (): Promise<void> => {
      for await (const chunk of (await broken.stream?.({ method: "GET", path: "/log" })) ?? [])
        expect(String(chunk)).not.toBe("");
    };
    await expect(read()).rejects.toSatisfy(isCode("ConnectionLost"));
    const { transport } = await serve(() => ({
      status: 400,
      body: {
        apiVersion: "v1",
        kind: "Status",
        status: "Failure",
        code: 400,
        reason: "BadRequest",
        message: "waiting to start",
      },
    }));
    await expect(transport.stream?.({ method: "GET", path: "/log" })).rejects.toThrow("waiting to start");
  });
});
