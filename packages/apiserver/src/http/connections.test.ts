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
import { startHttpServer } from "./http-server.ts";
import type { HttpServer } from "./http-server-options.ts";

const large = "x".repeat(4 * 1024 * 1024);
let directory: string;
let pki: Pki;
let server: HttpServer;
const errors: unknown[] = [];
const failure = new Error("not connected");

function failToConnect(): never {
  throw failure;
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "keelson-connections-"));
  pki = await ensurePki(directory, Date.now());
  server = await startHttpServer({
    handle: async (request) => {
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

  test("is closed if its upgrade fails, and the failure is reported", async () => {
    const socket = connect({ port: server.port, host: "127.0.0.1", ca: pki.authority.certificate });
    socket.on("error", () => undefined).resume();
    socket.write("GET /upgrade HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n");
    await once(socket, "close");
    expect(errors).toEqual([failure]);
  });
});
