import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { statusError } from "@keelson/api-machinery";
import { systemClock } from "@keelson/api-machinery/time";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ensurePki, type Pki } from "../auth/certificates/pki.ts";
import { startHttpServer } from "./server/http-server.ts";
import type { HttpServer } from "./server/http-server-options.ts";

const large = "x".repeat(4 * 1024 * 1024);
let directory: string;
let pki: Pki;
let server: HttpServer;
const errors: unknown[] = [];
/** Requests of `/numbered` in progress, and the most at the same time. */
let concurrent = 0;
let maxConcurrent = 0;
const failure = new Error("not connected");
let openStreams = 0;

function failToConnect(): never {
  throw failure;
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-connections-"));
  pki = await ensurePki(directory, Date.now());
  server = await startHttpServer({
    handle: async (request) => {
      if (request.path === "/numbered") {
        maxConcurrent = Math.max(maxConcurrent, ++concurrent);
        await new Promise((resolve) => setImmediate(resolve));
        concurrent--;
        return { kind: "raw", status: 200, headers: {}, body: `<${request.query?.["n"]}>` };
      }
      if (request.path === "/stream") return { kind: "upgrade", connect: ({ socket }) => socket.write("connected") };
      if (request.path === "/upgrade") return { kind: "upgrade", connect: failToConnect };
      if (request.method === "GET") return { kind: "raw", status: 200, headers: {}, body: large };
      await request.receive?.(false);
      if (request.bodyBytes === undefined) throw statusError("BadRequest", "no body");
      return { kind: "raw", status: 200, headers: {}, body: `received ${request.bodyBytes}` };
    },
    authenticate: () => ({ username: "anyone", groups: [] }),
    tls: { ...pki.server, clientAuthority: pki.authority.certificate },
    toTable: () => ({ columnDefinitions: [], rows: [] }),
    port: 0,
    clock: systemClock,
    newId: randomUUID,
    flow: {
      async admit() {
        openStreams++;
        return { headers: {}, isStream: true, release: () => void openStreams-- };
      },
    },
    onError: (error) => errors.push(error),
  });
});
afterAll(async () => {
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

describe("a connection", () => {
  test("takes a request of several TLS records while the previous response is not flushed", async () => {
    const body = JSON.stringify({ data: "y".repeat(200 * 1024) });
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    const headers = `host: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
    socket.write(`GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\n\r\n`);
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 100));
    socket.write(`POST /api/v1/nodes HTTP/1.1\r\n${headers}\r\n${body}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
    let tail = "";
    for await (const chunk of socket) tail = (tail + String(chunk)).slice(-100);
    expect(tail).toContain(`received ${body.length}`);
  });

  test.each(["TLSv1.3", "TLSv1.2"] as const)(
    "of %s uses AES-128-GCM if its client has no preference of its own",
    async (version) => {
      const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate, maxVersion: version });
      await once(socket, "secureConnect");
      expect(socket.getCipher().name).toMatch(/AES_?128_?-?GCM/);
      socket.destroy();
    },
  );

  test("has its pipelined requests served one after the other, including those that its client has not waited for", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    const count = 129;
    const requests = Array.from({ length: count }, (_, n) => {
      const isLast = n === count - 1;
      return `GET /numbered?n=${n} HTTP/1.1\r\nhost: x\r\n${isLast ? "connection: close\r\n" : ""}\r\n`;
    });
    socket.write(requests.join(""));
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect([...text.matchAll(/<(\d+)>/g)].map((match) => Number(match[1]))).toEqual(Array.from({ length: count }, (_, n) => n));
    expect(maxConcurrent).toBe(1);
  });

  test("gets the response to its request before that to the malformed bytes behind it", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.write(`GET /numbered?n=1 HTTP/1.1\r\nhost: x\r\n\r\n{"propagationPolicy":"Foreground"}`);
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect(text.match(/HTTP\/1.1 \d+|<\d+>|MethodNotAllowed/g)).toEqual([
      "HTTP/1.1 200",
      "<1>",
      "HTTP/1.1 405",
      "MethodNotAllowed",
    ]);
  });

  test("is answered and closed if the body of its request is malformed", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.write("POST /a HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n");
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect(text).toMatch(/^HTTP\/1.1 400/);
  });

  test("is closed if its client pipelines too many requests", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined);
    socket.write("GET /numbered?n=0 HTTP/1.1\r\nhost: x\r\n\r\n".repeat(400));
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    await once(socket, "close");
    expect(text.split("<0>").length).toBeLessThan(400);
  });

  test("that closes with pipelined requests behind a response does not have them served", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.write("GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\n\r\nGET /upgrade HTTP/1.1\r\nhost: x\r\n\r\n");
    const reported = errors.length;
    await once(socket, "data");
    socket.destroy();
    const other = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    other.resume().write("GET /numbered?n=0 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    await once(other, "close");
    expect(errors).toHaveLength(reported);
  });

  test("is closed if its client sends an upgrade before the previous response", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined).resume();
    const upgrade = "GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";
    socket.write(`GET /numbered?n=0 HTTP/1.1\r\nhost: x\r\n\r\n${upgrade}`);
    await once(socket, "close");
    const other = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    other.write("GET /numbered?n=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let text = "";
    for await (const chunk of other) text += String(chunk);
    expect(text).toContain("<1>");
    expect(errors).toEqual([]);
  });

  test("counts as a stream from its upgrade until it is closed", async () => {
    const before = openStreams;
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.write("GET /stream HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
    await once(socket, "data");
    expect(openStreams).toBe(before + 1);
    socket.destroy();
    await expect.poll(() => openStreams).toBe(before);
  });

  test("is closed if its upgrade fails, and the failure is reported", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined).resume();
    socket.write("GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
    await once(socket, "close");
    expect(errors).toEqual([failure]);
    errors.length = 0;
  });
});
