import { once } from "node:events";
import { createServer } from "node:https";
import { type AddressInfo, connect as connectTcp } from "node:net";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { execFeature } from "../protocol/exec-messages.ts";
import { after, robotOf, taskOf } from "../testing/objects.ts";
import { connectExec } from "./connect-exec.ts";
import { ExecAccess } from "./exec-access.ts";
import { encodeFrame, execServerName, readFrames, execProtocol } from "./exec-frames.ts";
import { ExecServer } from "./exec-server.ts";
import { type ExecListener, ExecSessions } from "./exec-sessions.ts";

const identity = { keySha256: "a".repeat(64), publicKey: "", certificate: "", expires: after(1e9) };
const robot = robotOf("robot-001", { status: { phase: "Online", identity, agentFeatures: [execFeature] } });
const task = taskOf({ state: "running", attempt: 1 }, { bound: true });
const identities = {
  authenticate: (token: string) => Promise.resolve({ username: token }),
  isAllowed: ({ username }: { readonly username: string }) => Promise.resolve(username === "alice"),
};
const events: string[] = [];
let server: ExecServer;
let url = "";
let authority = "";
let own: KeyPair;

/* A server beyond loopback, with a robot that ends every command with status 3. */

beforeAll(async () => {
  const validity = { notBefore: new Date(0), notAfter: new Date(Date.now() + 86_400_000) };
  own = await createCertificateAuthority("robots", validity.notBefore, validity.notAfter);
  authority = own.certificate;
  const sessions: ExecSessions = new ExecSessions({
    clock: systemClock,
    send: (robotId, _topic, message) => {
      const { id, kind } = message as { readonly id: string; readonly kind: string };
      if (kind === "start") queueMicrotask(() => sessions.receive(robotId, { id, seq: 0, kind: "exited", exitCode: 3 }));
    },
  });
  server = new ExecServer({
    ...{ sessions, namespace: "default", clock: systemClock, log: silentLogger },
    access: new ExecAccess({ identities, localToken: undefined }),
    taskNamed: () => task,
    robotNamed: () => robot,
    onChange: () => () => {},
    events: { event: (_, { note }) => void events.push(note) },
    tls: await issueCertificate(own, { commonName: "exec", usage: "server", hosts: [execServerName], ...validity }),
  });
  url = await server.listen(0, "127.0.0.1");
});

afterAll(() => server.stop());

const connect = (token: string, change: object = {}) =>
  connectExec({
    url,
    token,
    authority,
    namespace: "default",
    task: "main",
    request: "exec",
    signal: new AbortController().signal,
    ...change,
  });

it("runs the commands of users of the cluster over TLS, and records their names", async () => {
  const { socket, head } = await connect("alice");
  socket.write(encodeFrame("start", Buffer.from(JSON.stringify({ command: ["sh", "secret"], timeoutMs: 1000 }))));
  const frames: string[] = [];
  for await (const { type, data } of readFrames(socket, head)) frames.push(`${type} ${data.toString()}`);
  expect(frames).toEqual(['exit {"exitCode":3}']);
  expect(events).toEqual([
    'alice runs "sh" with 1 arguments on robot robot-001',
    '"sh" with 1 arguments of alice ended with status 3',
  ]);
});

it("rejects users without the permission, other namespaces, and servers of another authority", async () => {
  await expect(connect("bob")).rejects.toThrow('User "bob" cannot create resource "tasks/exec"');
  await expect(connect("alice", { namespace: "other" })).rejects.toThrow("tasks of robots are in namespace default");
  const other = await createCertificateAuthority("other", new Date(0), new Date(Date.now() + 86_400_000));
  await expect(connect("alice", { authority: other.certificate })).rejects.toThrow(/certificate/);
  await expect(connect("alice", { url: url.replace("https:", "http:") })).rejects.toThrow();
});

it("does not send the token to a broker, whose certificate has the same authority", async () => {
  const validity = { notBefore: new Date(0), notAfter: new Date(Date.now() + 86_400_000) };
  const hosts = ["localhost", "127.0.0.1"];
  const { certificate: cert, key } = await issueCertificate(own, {
    commonName: "localhost",
    usage: "server",
    hosts,
    ...validity,
  });
  const tokens: unknown[] = [];
  const broker = createServer({ cert, key });
  broker.on("upgrade", ({ headers }, socket) => {
    tokens.push(headers.authorization);
    socket.destroy();
  });
  broker.listen(0, "127.0.0.1");
  await once(broker, "listening");
  const { port } = broker.address() as AddressInfo;
  await expect(connect("alice", { url: `https://127.0.0.1:${port}` })).rejects.toThrow(/altnames/);
  expect(tokens).toEqual([]);
  const closed = once(broker, "close");
  broker.close();
  await closed;
});

describe("a caller that does not close its connection", () => {
  /** A server on loopback whose commands report to `listener`. */
  async function startServer() {
    let open: (listener: ExecListener) => void = () => {};
    const listener = new Promise<ExecListener>((resolve) => {
      open = resolve;
    });
    const handle = { write: () => Promise.resolve(), endInput() {}, resize() {}, close() {} };
    const other = new ExecServer({
      ...{ namespace: "default", clock: systemClock, log: silentLogger, taskNamed: () => task, robotNamed: () => robot },
      access: new ExecAccess({ identities, localToken: "local" }),
      events: { event() {} },
      onChange: () => () => {},
      sessions: {
        open: (_robot, _start, own) => {
          open(own);
          return handle;
        },
      },
    });
    onTestFinished(() => other.stop());
    return { url: await other.listen(0, "127.0.0.1"), listener };
  }

  it("is disconnected when it was rejected", async () => {
    const { url: plain } = await startServer();
    const socket = connectTcp({ port: Number(new URL(plain).port), host: "127.0.0.1", allowHalfOpen: true });
    const closed = new Promise((resolve) => {
      socket
        .resume()
        .on("error", () => {})
        .on("close", resolve);
    });
    const headers = `Host: a\r\nConnection: Upgrade\r\nUpgrade: ${execProtocol}`;
    socket.write(`GET /v1/namespaces/default/tasks/main/exec HTTP/1.1\r\n${headers}\r\n\r\n`);
    await once(socket, "end");
    // The server's end of the connection is gone, so what the caller still sends is refused.
    const writing = setInterval(() => socket.write("x"), 100);
    await closed;
    clearInterval(writing);
  });

  it("does not fail the server when it is lost while output waits for it", async () => {
    const { url: plain, listener } = await startServer();
    const { socket } = await connect("local", { url: plain, authority: undefined });
    socket.write(encodeFrame("start", Buffer.from(JSON.stringify({ command: ["yes"], timeoutMs: 60_000 }))));
    const { onOutput } = await listener;
    const flood = async (): Promise<void> => {
      // More than the buffers of the connection hold.
      for (let sent = 0; sent < 1_000; sent++) await onOutput({ stream: "stdout", data: Buffer.alloc(64 * 1024) });
    };
    const flooded = flood();
    await once(socket, "readable");
    socket.destroy();
    await flooded;
  });
});
