import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { systemClock } from "@keelson/api-machinery/time";
import { expect, onTestFinished, test } from "vitest";
import { grpcHealth } from "./grpc-health.ts";

/** A server that answers every call with this status and body; `undefined` never answers. */
async function serve(status: string | undefined, body: readonly number[] = []): Promise<{ port: number; asked: Buffer[] }> {
  const server: Http2Server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  const asked: Buffer[] = [];
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      asked.push(Buffer.concat(chunks));
      if (status === undefined) return;
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": status }));
      stream.end(Buffer.from([0, 0, 0, 0, body.length, ...body]));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, asked };
}

const ask = (port: number, service = "", timeoutMs = 8_000) =>
  grpcHealth({ host: "127.0.0.1", port, service }, timeoutMs, systemClock);

test("a serving program is healthy, and receives the service name", async () => {
  const { port, asked } = await serve("0", [0x08, 0x01]);
  expect(await ask(port, "robots")).toBeUndefined();
  expect(asked[0]?.toString("latin1")).toBe("\0\0\0\0\u0008\n\u0006robots");
  expect(await ask(port)).toBeUndefined();
  expect(asked[1]?.length).toBe(5);
  const long = "x".repeat(300);
  expect(await ask(port, long)).toBeUndefined();
  expect(asked[2]?.subarray(5, 8)).toEqual(Buffer.from([0x0a, 0xac, 0x02]));
});

test.each([
  ["0", [0x08, 0x02], /NOT_SERVING/],
  ["0", [], /UNKNOWN/],
  ["5", [], /unknown service/],
  ["12", [], /does not implement the grpc health protocol/],
  ["13", [], /status 13/],
] as const)("status %s with %j is reported", async (status, body, problem) => {
  expect(await ask((await serve(status, body)).port)).toMatch(problem);
});

test("a program that does not listen, or does not respond in time, is reported", async () => {
  const { port } = await serve(undefined);
  expect(await ask(port, "", 50)).toMatch(/timeout.*within 0.05s/);
  expect(await ask(1)).toMatch(/failed to connect to 127.0.0.1:1/);
});
