import { once } from "node:events";
import { createServer } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GrpcSessions } from "./grpc-sessions.ts";

const sockets = new Set<Socket>();
const server = createServer();
server.on("connection", (socket: Socket) => sockets.add(socket.on("error", () => {})));
server.on("sessionError", () => {});
server.on("stream", (stream) => {
  stream.on("error", () => {});
  stream.respond({ ":status": 200 });
  stream.write("role");
});
beforeEach(() => once(server.listen(0, "127.0.0.1"), "listening"));
afterEach(() => void server.close());

test("reports a reset connection to its streams only, even if one of them is repeated immediately", async () => {
  const sessions = new GrpcSessions(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const uncaught: unknown[] = [];
  process.setUncaughtExceptionCaptureCallback((error) => uncaught.push(error));
  try {
    const stream = await sessions.request("GET", "/", {}, {});
    await once(stream, "data");
    const repeated = new Promise((resolve) => stream.once("error", () => resolve(sessions.request("GET", "/", {}, {}))));
    for (const socket of sockets) socket.resetAndDestroy();
    const second = (await repeated) as typeof stream;
    second.on("error", () => {});
    expect(String((await once(second, "data"))[0])).toBe("role");
    expect(uncaught).toEqual([]);
  } finally {
    sessions.abort();
    process.setUncaughtExceptionCaptureCallback(null);
  }
});
