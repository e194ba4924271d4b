import { readdir, readFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { PassThrough } from "node:stream";
import { connect as connectTls } from "node:tls";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import { ConfigMap, Event, Secret } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { silentLogger } from "@keelson/controller";
import { agentName } from "@keelson/middleware-agent";
import { AgentSessions } from "@keelson/middleware-agent/protocol";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectResp, parseInfo, type Reply } from "./agent/redis/resp-client.ts";
import { createAgentClient } from "./agent/agent-client.ts";
import { usersCommand } from "./commands/users.ts";
import { agentAccessOf } from "./controllers/agent-access.ts";
import { App } from "./api/app.ts";
import { Group } from "./api/group.ts";
import { annotations } from "./api/names.ts";
import { type RedisEnvironment, startRedisEnvironment } from "./testing/redis-environment.ts";

let redis: RedisEnvironment;
beforeEach(async () => {
  redis = await startRedisEnvironment();
}, 60_000);
afterEach(() => redis[Symbol.asyncDispose](), 60_000);

const namespace = "default";

async function passwordOf(secret: string): Promise<string> {
  const { data } = await redis.client.get(Secret, { namespace, name: secret });
  return Buffer.from(data?.["password"] ?? "", "base64").toString();
}

/** Runs a command as a user of a server. Resolves to the error's message if the server rejects it. */
async function as(host: string, user: string, password: string, ...words: readonly string[]): Promise<Reply> {
  const connection = await connectResp({ host, port: 6379, timeoutMs: 20_000, clock: systemClock });
  try {
    await connection.command("AUTH", user, password);
    return await connection.command(...words);
  } catch (error) {
    return String((error as Error).message).split(" ")[0] ?? "";
  } finally {
    connection.close();
  }
}

/** The token of the agents. */
async function tokenOf(): Promise<string> {
  const { data } = await redis.client.get(Secret, { namespace, name: "cache-access" });
  return agentAccessOf(data)?.token ?? "";
}

/** Whether the agent at an address accepts a token. */
async function isAccepted(host: string, token: string): Promise<boolean> {
  const agents = createAgentClient({ roleTimeoutMs: 20_000 });
  try {
    return (await agents.role(host, { token })) !== undefined;
  } finally {
    agents.close();
  }
}

async function users(...[first, ...rest]: readonly [object | string, ...string[]]) {
  const [flags, args] = typeof first === "string" ? [{}, [first, ...rest]] : [first, rest];
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const status = await usersCommand.run({
    args,
    flags: { namespace, rules: "~app:* +@read +ping", ...flags },
    ...{ stdout, stderr, clock: systemClock, log: silentLogger },
    signal: AbortSignal.timeout(60_000),
    client: () => Promise.resolve(redis.client),
  });
  return { status, out: String(stdout.read() ?? ""), err: String(stderr.read() ?? "") };
}

/** Everything that others may see: objects other than Secrets, events, and the command lines of processes. */
async function visible(): Promise<string> {
  const lists = await Promise.all([redis.client.list(App), redis.client.list(Group), redis.client.list(Event)]);
  const processes = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(processes.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return JSON.stringify([lists.map(({ items }) => items), await redis.pods(), redis.errors, commands]);
}

/** What a client sees at a port without TLS. */
function plain(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = createConnection({ host, port }, () => socket.write("PING\r\n"));
    // Otherwise it is an alert of TLS.
    socket.once("data", (data) => resolve(/^[+-]/.test(data.toString("latin1")) ? "answered" : "closed"));
    socket.once("close", () => resolve("closed"));
    socket.on("error", ({ code = "" }: NodeJS.ErrnoException) => resolve(code === "ECONNRESET" ? "closed" : code));
  });
}

/** Whether a client that trusts these authorities accepts the certificate for a name. */
function verify(host: string, port: number, ca: string, servername: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connectTls({ host, port, ca, servername }, () => {
      resolve("verified");
      socket.destroy();
    });
    socket.once("error", ({ code = "" }: NodeJS.ErrnoException) => resolve(code));
  });
}

/** Codes of OpenSSL for a certificate of another authority. */
const unverified = /^(UNABLE_TO_|CERT_SIGNATURE_FAILURE|SELF_SIGNED)/;

const authorities = async (): Promise<string> =>
  (await redis.client.get(ConfigMap, { namespace, name: "cache-ca" })).data?.["ca.crt"] ?? "";

/** Whether the agent at an address answers with a certificate of this authority for the agents of an App. */
async function reachAgent(
  host: string,
  certificates: { authorities: string; certificate: string; key: string },
): Promise<boolean> {
  const identity = () => ({ mode: "require" as const, ...certificates });
  const sessions = new AgentSessions({ host, port: 50_052, identity, pingIntervalMs: 10_000, pingTimeoutMs: 10_000 });
  try {
    const stream = await sessions.request("POST", "/agent2.v1.ToolInvoker/GetRole", { "content-type": "application/grpc" }, {});
    stream.on("error", () => undefined).end();
    for await (const _ of stream);
    return stream.sentTrailers !== undefined || stream.rstCode === 0;
  } catch {
    return false;
  } finally {
    sessions.abort();
  }
}

describe("TLS of real Redis", { timeout: 600_000 }, () => {
  it("is required of clients, replicas and agents, and its authority is replaced under a writer", async () => {
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      components: [{ name: "redis", groups: [{ name: "nodes", replicas: 2, storage: { size: "64Mi" } }] }],
      tls: { mode: "require", gracePeriod: "0s" },
    });
    await redis.settled(1);
    const [host = "", other = ""] = (await redis.pods()).map((pod) => pod.status?.podIP ?? "");
    const name = "cache-redis-nodes-primary.default.svc";
    const first = await authorities();
    // The certificate is issued again when the addresses of the Pods are known.
    await expect.poll(() => verify(host, 6380, first, host), { timeout: 100_000 }).toBe("verified");
    const now = [new Date(Date.now() - 60_000), new Date(Date.now() + 3_600_000)] as const;
    const stranger = await createCertificateAuthority("stranger", ...now);
    expect(await verify(host, 6380, first, name)).toBe("verified");
    expect(await verify(host, 6380, first, "other.default.svc")).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
    expect(await verify(host, 6380, stranger.certificate, name)).toMatch(unverified);
    expect([await plain(host, 6379), await plain(host, 6380), await plain(host, 26_379)]).toEqual([
      "ECONNREFUSED",
      "closed",
      "closed",
    ]);
    expect(parseInfo(await redis.command(await redis.primary(), "INFO", "replication"))["connected_slaves"]).toBe("1");
    const address = ["SENTINEL", "get-master-addr-by-name", "cache-redis-nodes"];
    expect(await redis.sentinel(other, ...address)).toEqual([await redis.primary(), "6380"]);

    const { data: secret } = await redis.client.get(Secret, { namespace, name: "cache-access" });
    const own = agentAccessOf(secret)?.identity;
    if (own === undefined) throw new Error("the controllers have no certificate");
    const [notBefore, notAfter] = now;
    const request = {
      commonName: "keelson-agent",
      usage: "peer",
      hosts: [agentName("default", "cache")],
      notBefore,
      notAfter,
    } as const;
    const stolen = await issueCertificate(stranger, request);
    expect(await plain(host, 50_052)).toBe("closed");
    expect(await reachAgent(host, own)).toBe(true);
    expect(await reachAgent(host, { authorities: own.authorities, ...stolen })).toBe(false);

    const uids = (await redis.pods()).map(({ metadata }) => metadata.uid);
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(50);
    const body = { metadata: { annotations: { [annotations.certificateControl]: '{"id":"1","authority":true}' } } };
    await redis.client.patch(App, { namespace, name: "cache" }, { type: "merge", body });
    const isReplaced = (text: string): boolean => text !== first && !text.includes(first.trim());
    await expect.poll(async () => isReplaced(await authorities()), { timeout: 300_000 }).toBe(true);
    expect(await verify(host, 6380, await authorities(), name)).toBe("verified");
    expect(await verify(host, 6380, first, name)).toMatch(unverified);
    const before = writer.count;
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(before + 50);
    expect((await writer.stop()).lost).toEqual([]);
    expect((await redis.pods()).map(({ metadata }) => metadata.uid)).toEqual(uids);
    const text = await visible();
    for (const line of own.key.split("\n").filter((each) => each.length > 40)) expect(text.includes(line)).toBe(false);
  });
});

describe("users of real Redis", { timeout: 180_000 }, () => {
  it("are created and deleted, and a rotated password interrupts no client, even across a failover", async () => {
    await redis.createApp({
      plugin: { name: "redis", version: "1.0.0" },
      runtime: { name: "redis", version: "7.0" },
      components: [{ name: "redis", groups: [{ name: "nodes", storage: { size: "64Mi" } }] }],
    });
    await redis.settled(1);
    const hosts = async (): Promise<readonly string[]> => (await redis.pods()).map((pod) => pod.status?.podIP ?? "");

    expect(await users("create", "cache", "reader")).toMatchObject({ status: 0, err: "" });
    const reader = await passwordOf("cache-user-reader");
    for (const host of await hosts()) {
      expect(await as(host, "reader", reader, "GET", "app:x")).toBeNull();
      expect(await as(host, "reader", reader, "GET", "other")).toBe("NOPERM");
      expect(await as(host, "reader", reader, "SET", "app:x", "1")).toBe("NOPERM");
    }

    const old = await passwordOf("cache-access");
    // It authenticates with the old password throughout.
    const writer = await redis.startWriter();
    await expect.poll(() => writer.count, { timeout: 60_000 }).toBeGreaterThan(50);
    expect(await users("rotate", "cache")).toMatchObject({ status: 0, err: "" });
    const next = await passwordOf("cache-access");
    expect(next).not.toBe(old);
    for (const host of await hosts())
      expect([await as(host, "default", old, "PING"), await as(host, "default", next, "PING")]).toEqual(["PONG", "PONG"]);
    // The controller records the end of the grace period after it has published the password.
    await expect
      .poll(async () => (await users("list", "cache")).out, { timeout: 60_000 })
      .toMatch(/^default .* rotated; the previous one is accepted until 20/m);

    const token = await tokenOf();
    const uids = (await redis.pods()).map(({ metadata }) => metadata.uid);
    expect(await users({ "agent-token": true }, "rotate", "cache")).toMatchObject({ status: 0, err: "" });
    expect(await tokenOf()).not.toBe(token);
    for (const host of await hosts())
      expect([await isAccepted(host, token), await isAccepted(host, await tokenOf()), await isAccepted(host, "x")]).toEqual([
        true,
        true,
        false,
      ]);
    expect((await redis.pods()).map(({ metadata }) => metadata.uid)).toEqual(uids);

    const primary = (await redis.group()).status?.primary?.pod;
    const server = Number(parseInfo(await redis.command(await redis.primary(), "INFO", "server"))["process_id"]);
    process.kill(server, "SIGKILL");
    await redis.untilGroup(
      ({ status }) => status?.primary?.pod !== primary && status?.readyReplicas === 3 && status.failover === undefined,
    );
    for (const host of await hosts())
      expect([await as(host, "default", old, "PING"), await as(host, "reader", reader, "PING")]).toEqual(["PONG", "PONG"]);
    expect((await writer.stop()).lost).toEqual([]);

    expect(await users("delete", "cache", "reader")).toMatchObject({ status: 0, err: "" });
    for (const host of await hosts()) expect(await as(host, "reader", reader, "PING")).toBe("WRONGPASS");
    const text = await visible();
    for (const secret of [old, next, reader, token, await tokenOf()]) expect(text.includes(secret)).toBe(false);
  });
});
