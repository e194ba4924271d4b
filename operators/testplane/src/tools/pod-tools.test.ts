import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { ByteStream, Transport } from "@keelson/api-machinery/transport";
import { statusError } from "@keelson/api-machinery";
import { Pod } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { choosePod } from "./choose-pod.ts";
import { execInPod } from "./exec-tool.ts";
import { readLogs } from "./logs-tool.ts";

const namespace = "default";
const clock = systemClock;
const { signal } = new AbortController();
let environment: TestEnvironment;
let client: Client;
beforeAll(async () => {
  environment = await startTestEnvironment({ crds: [] });
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
});
afterAll(() => environment.stop());

async function createPod(name: string, labels: Record<string, string>, phase?: string): Promise<void> {
  const containers = [{ name: "main", image: "none" }];
  await client.create(Pod, { metadata: { name, namespace, labels }, spec: { containers } } as never);
  if (phase !== undefined) await setPhase(name, phase);
}
const setPhase = (name: string, phase: string) =>
  client.patch(Pod, { namespace, name }, { type: "merge", body: { status: { phase } } }, { subresource: "status" });

describe("the choice of a Pod", () => {
  const choice = (selection: object, giveUpInMs = 60_000) =>
    choosePod({ client, namespace, selection, allowsEnded: false, giveUpAtMs: clock.now() + giveUpInMs, clock, signal });

  it("takes the first running Pod with the labels, by name", async () => {
    const labels = { app: "first" };
    await createPod("first-c", labels, "Running");
    await createPod("first-b", labels, "Running");
    await createPod("first-a", labels, "Pending");
    expect(await choice({ labelSelector: labels })).toEqual({ namespace, name: "first-b", containers: ["main"] });
  });

  it("waits until the Pod exists and runs", async () => {
    const found = choice({ pod: "later" });
    await createPod("later", {});
    await setPhase("later", "Running");
    expect(await found).toMatchObject({ name: "later" });
  });

  it("fails if no such Pod runs in time", async () => {
    await createPod("stuck", { app: "stuck" }, "Failed");
    await expect(choice({ labelSelector: { app: "stuck" } }, 0)).rejects.toThrow("a Pod with app=stuck is not running");
  });

  it("prefers a running Pod to one that has ended, to read its log", async () => {
    const labels = { app: "replaced" };
    await createPod("replaced-a", labels, "Failed");
    await createPod("replaced-b", labels, "Running");
    const options = { allowsEnded: true, giveUpAtMs: clock.now() + 60_000, clock, signal };
    expect(await choosePod({ client, namespace, selection: { labelSelector: labels }, ...options })).toMatchObject({
      name: "replaced-b",
    });
  });

  it("takes a Pod that has ended to read its log", async () => {
    await createPod("ended", {}, "Succeeded");
    const options = { allowsEnded: true, giveUpAtMs: clock.now() + 60_000, clock, signal };
    expect(await choosePod({ client, namespace, selection: { pod: "ended" }, ...options })).toMatchObject({ name: "ended" });
  });
});

describe("the tool logs", () => {
  const pod = { namespace, name: "web-0", containers: ["main", "side"] };
  const queries: unknown[] = [];

  /** A client whose logs have these chunks, and then end or, with `isOpen`, continue. */
  const clientOf = (chunks: readonly string[], isOpen = false): Client => {
    const transport = {
      stream: (request: { readonly query?: unknown; readonly signal?: AbortSignal }): Promise<ByteStream> => {
        queries.push(request.query);
        return Promise.resolve({
          close: () => {},
          async *[Symbol.asyncIterator]() {
            for (const chunk of chunks) yield Buffer.from(chunk);
            if (!isOpen) return;
            // Time runs out once everything has been read.
            expire();
            request.signal?.throwIfAborted();
            await new Promise(() => {});
          },
        });
      },
      close: () => Promise.resolve(),
    } as unknown as Transport;
    return createClient({ transport, fieldManager: "test" });
  };
  let expire = (): void => {};
  const manual = {
    ...clock,
    setTimer: (_: number, callback: () => void) => {
      expire = callback;
      return { cancel: () => {} };
    },
  };
  const read = (source: Client, logs: object) =>
    readLogs({ client: source, pod, logs, giveUpAtMs: clock.now(), clock: manual, signal });

  it("reads the log of the first container once", async () => {
    expect(await read(clientOf(["one\n", "two\n"]), { tailLines: 2 })).toEqual({
      exitCode: 0,
      stdout: "one\ntwo\n",
      stderr: "",
    });
    expect(queries.at(-1)).toMatchObject({ container: "main", tailLines: "2", follow: undefined });
  });

  it("follows the log until a line matches, even if the line arrives in parts", async () => {
    const source = clientOf(["starting\nrea", "dy in 3 ms\nmore"], true);
    expect(await read(source, { container: "side", contains: "^ready in [0-9]+ ms$" })).toMatchObject({
      stdout: "starting\nready in 3 ms\nmore",
    });
    expect(queries.at(-1)).toMatchObject({ container: "side", follow: "true" });
  });

  it("matches a last line without a line feed", async () => {
    expect(await read(clientOf(["ready"]), { contains: "^ready$" })).toMatchObject({ stdout: "ready" });
  });

  it("fails with the last line if the container ends, or time runs out, before a line matches", async () => {
    const what = 'no line of the log of container main of Pod web-0 matches ready; its last line is "starting"';
    await expect(read(clientOf(["starting\n"]), { contains: "ready" })).rejects.toMatchObject({
      code: "CheckFailed",
      message: `${what}; the container has ended`,
    });
    await expect(read(clientOf(["starting\n"], true), { contains: "ready" })).rejects.toMatchObject({
      code: "Timeout",
      message: what,
    });
  });

  it("fails with the message of the API server", async () => {
    const transport = {
      stream: () => Promise.reject(statusError("Forbidden", "no permissions")),
      close: () => Promise.resolve(),
    } as unknown as Transport;
    const source = createClient({ transport, fieldManager: "test" });
    await expect(read(source, {})).rejects.toMatchObject({ code: "Forbidden", message: "no permissions" });
  });
});

describe("the tool exec", () => {
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  /** A server of `pods/exec`. */
  async function serveExec(
    onConnect: (socket: WebSocket, request: IncomingMessage) => void,
    refusal?: object,
  ): Promise<string> {
    const server = createServer();
    const sockets = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false });
    server.on("upgrade", (request, socket, head) => {
      if (refusal === undefined) sockets.handleUpgrade(request, socket, head, (each) => onConnect(each, request));
      else socket.end(`HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n${JSON.stringify(refusal)}`);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    closing.push(async () => {
      for (const socket of sockets.clients) socket.terminate();
      server.close();
      await once(server, "close");
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  const message = (channel: number, text: string): Buffer => Buffer.concat([Buffer.from([channel]), Buffer.from(text)]);
  const pod = { namespace, name: "web-0", containers: ["main"] };
  const exec = (server: string, command: string[], stdin?: string) => {
    const credentials = { get: () => Promise.resolve({ token: "secret" }) };
    return execInPod({
      connection: { server, credentials },
      pod,
      exec: { command, ...(stdin === undefined ? {} : { stdin }) },
      signal,
    });
  };

  it("sends the command and its input, and reports output and exit code", async () => {
    let request: IncomingMessage | undefined;
    const server = await serveExec((socket, received) => {
      request = received;
      const input: Buffer[] = [];
      socket.on("message", (data: Buffer) => {
        if (data[0] === 0) input.push(data.subarray(1));
        if (data[0] !== 255) return;
        const details = { causes: [{ reason: "ExitCode", message: "3" }] };
        socket.send(message(1, `out ${Buffer.concat(input).toString()}`));
        socket.send(message(2, "err"));
        socket.send(message(3, JSON.stringify({ status: "Failure", reason: "NonZeroExitCode", details })));
        socket.close();
      });
    });
    expect(await exec(server, ["cat", "-n"], "hello")).toEqual({ exitCode: 3, stdout: "out hello", stderr: "err" });
    const url = new URL(request?.url ?? "", server);
    expect(url.pathname).toBe("/api/v1/namespaces/default/pods/web-0/exec");
    expect(url.searchParams.getAll("command")).toEqual(["cat", "-n"]);
    expect(url.searchParams.get("container")).toBe("main");
    expect(request?.headers.authorization).toBe("Bearer secret");
  });

  it("reports why the program was not started", async () => {
    const server = await serveExec((socket) => {
      socket.send(message(3, JSON.stringify({ status: "Failure", message: "no such program" })));
      socket.close();
    });
    await expect(exec(server, ["nothing"])).rejects.toMatchObject({ code: "ExecFailed", message: "no such program" });
  });

  it("does not count a broken connection as success", async () => {
    const server = await serveExec((socket) => socket.terminate());
    await expect(exec(server, ["true"])).rejects.toMatchObject({ code: "ExecFailed" });
  });

  it("reports the refusal of the API server", async () => {
    const server = await serveExec(() => {}, { kind: "Status", message: "pods is forbidden" });
    await expect(exec(server, ["true"])).rejects.toMatchObject({ code: "Forbidden", message: "pods is forbidden" });
  });
});
