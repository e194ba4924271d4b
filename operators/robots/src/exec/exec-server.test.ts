import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createCertificateAuthority, issueCertificate, type KeyPair } from "@keelson/api-machinery/certificates";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { afterAll, beforeAll, expect, it } from "vitest";
import { execFeature } from "../protocol/exec-messages.ts";
import { after, robotOf, taskOf } from "../testing/objects.ts";
import { connectExec } from "./connect-exec.ts";
import { ExecAccess } from "./exec-access.ts";
import { encodeFrame, execServerName, readFrames } from "./exec-frames.ts";
import { ExecServer } from "./exec-server.ts";
import { ExecSessions } from "./exec-sessions.ts";

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
    events: { event: (_, { note }) => void events.push(note) },
    tls: await issueCertificate(own, { commonName: "exec", usage: "server", hosts: [execServerName], ...validity }),
  });
  url = await server.listen(0, "127.0.0.1");
});

afterAll(() => server.stop());

const connect = (token: string, change: object = {}) =>
  connectExec({ url, token, authority, namespace: "default", task: "main", signal: new AbortController().signal, ...change });

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

it("rejects users without the right, other namespaces, and servers of another authority", async () => {
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
