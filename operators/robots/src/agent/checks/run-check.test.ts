import { createServer as createHttpServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { afterEach, expect, it } from "vitest";
import { runCheck } from "./run-check.ts";
import type { CheckTarget } from "./task-checks.ts";
import { portOf, portVariables, readPorts } from "./task-ports.ts";

interface Listener {
  listen(port: number, host: string, onListening: () => void): unknown;
  address(): unknown;
  close(): unknown;
}

const servers: Listener[] = [];
const clock = createVirtualClock(0);

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Listener): Promise<string> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  return String((server.address() as AddressInfo).port);
}

/** The status of a check against a program with this variable. */
async function statusOf(target: CheckTarget, exitCode = 0): Promise<string> {
  const program = {
    spec: { id: "a", command: ["a"] as const, env: {} },
    exec: () =>
      Promise.resolve({
        stdin: { end: () => {} },
        stdout: { resume: () => {} },
        kill: () => Promise.resolve(),
        exited: () => Promise.resolve({ exitCode }),
      }),
  } as unknown as Parameters<typeof runCheck>[1];
  return (await runCheck({ target, timeoutMs: 1000 }, program, { clock, signal: new AbortController().signal })).status;
}

it("asks http servers, and does not follow redirects", async () => {
  const port = await listening(
    createHttpServer((request, response) => {
      const code = Number(request.url?.slice(1));
      response.writeHead(code, { location: "/200" }).end("x".repeat(100_000));
    }),
  );
  const http = (path: string) => statusOf({ type: "http", port, path, isSecure: false });
  expect([await http("/200"), await http("/204"), await http("/302"), await http("/429"), await http("/500")]).toEqual([
    ...["passing", "passing", "critical", "warning", "critical"],
  ]);
});

it("connects to tcp ports, and finds closed and unknown ones critical", async () => {
  const port = await listening(createServer((socket) => socket.destroy()));
  expect(await statusOf({ type: "tcp", port })).toBe("passing");
  servers.splice(0).forEach((server) => server.close());
  expect(await statusOf({ type: "tcp", port })).toBe("critical");
  expect(await statusOf({ type: "tcp", port: "unknown" })).toBe("critical");
});

it("asks gRPC servers for their health", async () => {
  let status = 1;
  const server = createHttp2Server();
  server.on("stream", (stream, headers) => {
    expect(headers[":path"]).toBe("/grpc.health.v1.Health/Check");
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(Buffer.from([0, 0, 0, 0, 2, 8, status]));
  });
  const port = await listening(server);
  expect(await statusOf({ type: "grpc", port })).toBe("passing");
  status = 2;
  expect(await statusOf({ type: "grpc", port })).toBe("critical");
});

it("runs scripts alongside the program", async () => {
  const script = { type: "script", command: ["check"] } as const;
  expect([await statusOf(script), await statusOf(script, 1), await statusOf(script, 2)]).toEqual([
    "passing",
    "warning",
    "critical",
  ]);
});

it("is critical without a response in time", async () => {
  const port = await listening(createServer(() => {}));
  const found = statusOf({ type: "http", port, path: "/", isSecure: false });
  await clock.advance(1000);
  expect(await found).toBe("critical");
});

it("gives programs the ports that they request, free ones where no number is fixed", async () => {
  const ports = readPorts({
    networks: [
      { reservedPorts: [{ label: "web", value: 8080 }, { label: "none" }, { label: "bad", value: 70_000 }, 7] },
      { dynamicPorts: [{ label: "rpc-a" }, { label: "rpc-b" }] },
    ],
  });
  const variables = await portVariables(ports);
  expect(variables).toMatchObject({ K8S4R_PORT_WEB: "8080" });
  const chosen = [variables["K8S4R_PORT_RPC_A"], variables["K8S4R_PORT_RPC_B"]].map(Number);
  expect(new Set(chosen).size).toBe(2);
  expect(chosen.every((port) => port > 1023)).toBe(true);
  expect([portOf("web", variables), portOf("9090", variables), portOf("toString", variables)]).toEqual([8080, 9090, undefined]);
});

it("survives a script that cannot be killed", async () => {
  const stopping = new AbortController();
  const program = {
    spec: { id: "a", command: ["a"] as const, env: {} },
    exec: () =>
      Promise.resolve({
        stdin: { end: () => stopping.abort() },
        stdout: { resume: () => {} },
        kill: () => Promise.reject(new Error("EMFILE: too many open files, scandir '/proc'")),
        exited: () => Promise.resolve({ exitCode: 1 }),
      }),
  } as unknown as Parameters<typeof runCheck>[1];
  const target: CheckTarget = { type: "script", command: ["a"] };
  await runCheck({ target, timeoutMs: 1000 }, program, { clock, signal: stopping.signal });
  await new Promise((resolve) => setImmediate(resolve));
});
