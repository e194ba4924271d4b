import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Code } from "@connectrpc/connect";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { portForwardCommand } from "./commands/port-forward.ts";
import { urlCommand } from "./commands/url.ts";
import { type LocalSandboxes, startLocalSandboxes } from "./testing/local-sandboxes.ts";

/** Answers each connection with its input in capitals, once the input has ended. */
const server = `
import socket
listener = socket.create_server(("127.0.0.1", 18090))
print("ready", flush=True)
while True:
    connection, _ = listener.accept()
    data = b""
    while part := connection.recv(65536):
        data += part
    connection.sendall(data.upper())
    connection.close()
`;

describe("connections to the ports of a sandbox", () => {
  let local: LocalSandboxes;

  beforeAll(async () => {
    local = await startLocalSandboxes({ "sandbox-proxy-port": "0" });
    await local.pool({ poolMin: 1, poolMax: 1 }, 4);
    await local.sandbox("one", { command: ["python3", "-c", server], exposedPorts: [18090] });
    await local.phase("one", "Running");
    for await (const { data } of local.streams.logs({ sandboxName: "one", follow: true })) if (data.length > 0) break;
  });

  afterAll(() => local.stop());

  async function exchange(input: string, target: { sandboxName?: string; port?: number } = {}): Promise<string> {
    async function* requests() {
      yield { request: { case: "start" as const, value: { sandboxName: "one", port: 18090, ...target } } };
      for (let from = 0; from < input.length; from += 100_000)
        yield { request: { case: "data" as const, value: Buffer.from(input.slice(from, from + 100_000)) } };
    }
    const chunks: Uint8Array[] = [];
    for await (const { data } of local.ports.connect(requests())) chunks.push(data);
    return Buffer.concat(chunks).toString();
  }

  it("carry data in both directions, and each direction ends by itself", async () => {
    const input = "abcdefghij".repeat(300_000);
    const answer = await exchange(input);
    // A failure must not print megabytes.
    expect([answer.length, answer === input.toUpperCase()]).toEqual([input.length, true]);
  });

  it("reach exposed ports of running sandboxes only", async () => {
    await expect(exchange("", { port: 5758 })).rejects.toMatchObject({ code: Code.FailedPrecondition });
    await expect(exchange("", { sandboxName: "none" })).rejects.toMatchObject({ code: Code.NotFound });
    await local.sandbox("done", { command: ["true"], exposedPorts: [18091] });
    await local.phase("done", "Succeeded");
    await expect(exchange("", { sandboxName: "done", port: 18091 })).rejects.toMatchObject({ code: Code.FailedPrecondition });
  });

  it("are not made to a program of the host that uses the port", async () => {
    const strangers = createServer((socket) => socket.end("stranger"));
    const address = (await local.fastPath.getSandbox({ sandboxName: "one" })).endpoints[0]?.replace(/:\d+$/, "");
    await new Promise<void>((resolve) => strangers.listen(18092, address, resolve));
    try {
      await local.sandbox("late", { command: ["sleep", "600"], exposedPorts: [18092] });
      await local.phase("late", "Running");
      await expect(exchange("", { sandboxName: "late", port: 18092 })).rejects.toMatchObject({
        code: Code.Unavailable,
        message: expect.stringContaining("does not listen on 18092"),
      });
    } finally {
      await new Promise((resolve) => strangers.close(resolve));
    }
  });

  it("are reached over HTTP with a signed URL, through the proxy", async () => {
    const program = "echo hello >index.html; exec python3 -u -m http.server 18093 --bind 127.0.0.1";
    await local.sandbox("web", { command: ["sh", "-c", program], exposedPorts: [18093, 18094] });
    const folder = mkdtempSync(join(tmpdir(), "sandbox-url-"));
    try {
      writeFileSync(join(folder, "token"), local.token);
      const stdout = new PassThrough();
      const status = await urlCommand.run({
        ...{ args: ["web", "18093"], stdout, stderr: new PassThrough(), clock: systemClock, log: silentLogger },
        flags: { endpoint: local.url, "token-file": join(folder, "token"), expires: "60s" },
        ...{ signal: new AbortController().signal, client: () => Promise.reject(new Error("not used")) },
      });
      expect(status).toBe(0);
      const url = new URL(String(stdout.read()));
      // The name leads to loopback in browsers, but not in every resolver.
      const get = async (path: string, host = url.host) => {
        const sent = request({ host: "127.0.0.1", port: url.port, path, headers: { host } }).end();
        const [response] = (await once(sent, "response")) as [IncomingMessage];
        return { status: response.statusCode, text: await text(response) };
      };
      await local.phase("web", "Running");
      const page = url.pathname + url.search;
      await expect.poll(async () => (await get(page)).status, { timeout: 30_000 }).toBe(200);
      expect(await get(page)).toEqual({ status: 200, text: "hello\n" });
      expect((await get(page, url.host.replace("18093", "18094"))).status).toBe(403);
      expect((await get("/")).status).toBe(401);
      await expect(local.ports.createUrl({ sandboxName: "web", port: 80 })).rejects.toMatchObject({
        code: Code.FailedPrecondition,
      });
      await local.restart();
      const { url: later } = await local.ports.createUrl({ sandboxName: "web", port: 18093 });
      const moved = new URL(later);
      url.port = moved.port;
      // The agent has to report to the new operator first.
      await expect.poll(async () => (await get(page)).text, { timeout: 30_000 }).toBe("hello\n");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("are forwarded from local ports until the command is interrupted", async () => {
    const folder = mkdtempSync(join(tmpdir(), "port-forward-"));
    try {
      writeFileSync(join(folder, "token"), local.token);
      const control = new AbortController();
      const [stdout, stderr] = [new PassThrough(), new PassThrough()];
      const running = portForwardCommand.run({
        ...{ args: ["one", "0:18090"], stdout, stderr, clock: systemClock, log: silentLogger, signal: control.signal },
        flags: { endpoint: local.url, "token-file": join(folder, "token") },
        client: () => Promise.reject(new Error("not used")),
      });
      const [line] = (await once(stdout, "data")) as [Buffer];
      const port = Number(/127\.0\.0\.1:(\d+) -> 18090/.exec(String(line))?.[1]);
      const answers = ["one", "two"].map(async (word) => {
        const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
        socket.end(word);
        return text(socket);
      });
      expect(await Promise.all(answers)).toEqual(["ONE", "TWO"]);
      control.abort();
      expect(await running).toBe(0);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
