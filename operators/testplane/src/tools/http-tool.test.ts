import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect as connectTcp, createServer as createTcpServer } from "node:net";
import { type Duplex, duplexPair, pipeline } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import { afterEach, describe, expect, it } from "vitest";
import type { HttpAction } from "../api/tool-actions.ts";
import { sendHttp } from "./http-tool.ts";
import { runTool } from "./run-tool.ts";
import type { ToolReport } from "./tool-report.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Limits {
  readonly giveUpInMs?: number;
  readonly acceptsAnyStatus?: boolean;
}

/** A clock on which a second passes immediately. */
const fastClock = {
  ...systemClock,
  setTimer: (delayMs: number, callback: () => void) => systemClock.setTimer(delayMs === 1_000 ? 0 : delayMs, callback),
};

const send = (http: HttpAction, { giveUpInMs = 60_000, acceptsAnyStatus = false }: Limits = {}): Promise<ToolReport> =>
  runTool({
    plan: { action: { kind: "http", http }, namespace: "default", giveUpAtMs: Date.now() + giveUpInMs, acceptsAnyStatus },
    clock: fastClock,
    signal: new AbortController().signal,
    connection: () => Promise.resolve(undefined),
  });

describe("the tool http", () => {
  it("reports status, headers and body of the response to its request", async () => {
    const url = await serve((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { method, url: path, headers } = request;
        response.writeHead(201, { "X-Kind": "Echo" });
        response.end(JSON.stringify({ method, path, token: headers["x-token"], body: Buffer.concat(chunks).toString() }));
      });
    });
    const headers = [{ name: "x-token", value: "t" }];
    const report = await send({ url: `${url}/a?b=c`, method: "POST", headers, body: "hello" });
    expect(report).toMatchObject({ kind: "result", result: { exitCode: 0, statusCode: 201, headers: { "x-kind": "Echo" } } });
    const body = report.kind === "result" ? (JSON.parse(report.result.stdout) as unknown) : undefined;
    expect(body).toEqual({ method: "POST", path: "/a?b=c", token: "t", body: "hello" });
  });

  it("repeats a GET until the status is as expected, even before the server listens", async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      requests++;
      if (requests === 1) request.socket.destroy();
      else response.writeHead(requests < 4 ? 503 : 200).end();
    });
    expect(await send({ url })).toMatchObject({ kind: "result", result: { statusCode: 200 } });
    expect(requests).toBe(4);
  });

  it("does not repeat a request after the time is over, which passes during the request", async () => {
    let [requests, nowMs] = [0, 0];
    const url = await serve((_, response) => {
      requests++;
      nowMs = 9_500;
      response.writeHead(503).end();
    });
    const report = await runTool({
      plan: { action: { kind: "http", http: { url } }, namespace: "default", giveUpAtMs: 10_000, acceptsAnyStatus: false },
      clock: { ...fastClock, now: () => nowMs },
      signal: new AbortController().signal,
      connection: () => Promise.resolve(undefined),
    });
    expect([requests, report]).toMatchObject([1, { result: { statusCode: 503, exitCode: 1 } }]);
  });

  it("sends other methods once", async () => {
    let requests = 0;
    const url = await serve((_, response) => {
      requests++;
      response.writeHead(503).end();
    });
    expect(await send({ url, method: "POST" })).toMatchObject({
      kind: "result",
      result: { exitCode: 1, statusCode: 503, stderr: `POST ${url} responded with HTTP 503, expected 200 to 399` },
    });
    expect(requests).toBe(1);
  });

  it("accepts any status if the step has checks, unless it names some", async () => {
    const url = await serve((_, response) => response.writeHead(404).end());
    expect(await send({ url }, { acceptsAnyStatus: true })).toMatchObject({ result: { exitCode: 0, statusCode: 404 } });
    const limits = { acceptsAnyStatus: true, giveUpInMs: 0 };
    expect(await send({ url, expectedStatusCodes: [200, 204] }, limits)).toMatchObject({
      result: { exitCode: 1, stderr: `GET ${url} responded with HTTP 404, expected 200 or 204` },
    });
  });

  it("follows no redirect, so that only the host in the test responds", async () => {
    const other = await serve((_, response) => response.end("other"));
    const url = await serve((_, response) => response.writeHead(302, { location: other }).end());
    expect(await send({ url })).toMatchObject({ result: { statusCode: 302, stdout: "", headers: { location: other } } });
  });

  it("keeps the end of a long body, and marks it as truncated", async () => {
    const url = await serve((_, response) => response.end(`${"a".repeat(100_000)}end`));
    const report = await send({ url });
    expect(report).toMatchObject({ result: { stdout: expect.stringMatching(/^a{16381}end$/), truncated: true } });
    const whole = await serve((_, response) => response.end("a".repeat(16_384)));
    expect(await send({ url: whole })).not.toHaveProperty("result.truncated");
  });

  it("sends requests over a forwarded connection", async () => {
    const url = new URL(await serve((request, response) => response.end(request.headers.host)));
    const connect = async (): Promise<Duplex> => {
      const [near, far] = duplexPair();
      const socket = connectTcp(Number(url.port), url.hostname);
      pipeline(far, socket, () => {});
      pipeline(socket, far, () => {});
      return near;
    };
    const result = await sendHttp({
      ...{ request: { url: "http://web-0:8080/" }, giveUpAtMs: 0, acceptsAnyStatus: false, clock: systemClock, connect },
      signal: new AbortController().signal,
    });
    expect(result).toMatchObject({ statusCode: 200, stdout: "web-0:8080" });
  });

  it("ends even if its action hangs", async () => {
    const report = await runTool({
      plan: {
        ...{ action: { kind: "exec", exec: { pod: "web", command: ["true"] } }, namespace: "default" },
        ...{ giveUpAtMs: 0, acceptsAnyStatus: false },
      },
      clock: { ...systemClock, setTimer: (_, callback) => systemClock.setTimer(0, callback) },
      signal: new AbortController().signal,
      connection: () => new Promise(() => {}),
    });
    expect(report).toEqual({ kind: "error", reason: "Timeout", message: "the action did not finish in time" });
  });

  it("reports a host that does not respond in time", async () => {
    const silent = createTcpServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const report = await send({ url, method: "POST", requestTimeout: "50ms" });
    silent.close();
    expect(report).toEqual({
      kind: "error",
      reason: "NoResponse",
      message: `POST ${url}: no complete response within 50ms`,
    });
  });

  it("reports a port on which nothing listens, and how often it tried", async () => {
    const server = createTcpServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    let calls = 0;
    // Time for two more attempts.
    const clock = { ...fastClock, now: () => calls++ * 1_000 };
    const report = await runTool({
      plan: {
        ...{ action: { kind: "http", http: { url: `http://127.0.0.1:${port}/` } }, namespace: "default" },
        ...{ giveUpAtMs: 3_000, acceptsAnyStatus: false },
      },
      clock,
      signal: new AbortController().signal,
      connection: () => Promise.resolve(undefined),
    });
    expect(report).toMatchObject({ kind: "error", reason: "NoResponse" });
    expect(report.kind === "error" ? report.message : "").toMatch(/^GET http:\S+: .*ECONNREFUSED.* \([23] attempts\)$/);
  });
});
