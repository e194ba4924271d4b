import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { ignoreNotFound } from "@keelson/api-machinery";
import { Event } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { type Logger, silentLogger } from "@keelson/controller";
import type { CommandDefinition } from "@keelson/operator";
import mqtt, { type MqttClient } from "mqtt";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { AgentIdentity } from "./agent/identity/agent-identity.ts";
import { GenuineMessages } from "./agent/identity/genuine-messages.ts";
import { heldAnnotation } from "./api/names.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { approveCommand, revokeCommand } from "./commands/approve.ts";
import { issueToken } from "./commands/token.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { certificateLifeMs } from "./identity/certificate-life.ts";
import { publicKeyText } from "./identity/one-time-token.ts";
import { readRobotAuthority } from "./identity/authority/authority-store.ts";
import { certifyRobot } from "./identity/authority/robot-authority.ts";
import { identityOf } from "./identity/robot-identity.ts";
import { messageValidityMs, sealMessage } from "./identity/signed-message.ts";
import { readTokens, type StoredToken } from "./identity/token-store.ts";
import { startBroker } from "./broker/broker.ts";
import { topics } from "./protocol/messages.ts";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import { readStoredIdentity, type StoredTestIdentity } from "./testing/stored-identity.ts";

let robots: RobotsEnvironment;
let client: Client;
let dir: string;
const agents: RunningAgent[] = [];

/* The tests share an API server and an operator. Each has robots of its own. */

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-identity-"));
  robots = await RobotsEnvironment.start();
  client = robots.client;
});

afterEach(async () => {
  for (const each of clients.splice(0)) await each.endAsync(true);
  for (const agent of agents.splice(0)) await agent.stop();
});

afterAll(async () => {
  await robots[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

async function token(binding: Pick<StoredToken, "robot" | "labels" | "requiresApproval">, ttlMs = 60_000): Promise<string> {
  const store = { client, namespace, fieldManager: "test" };
  return (await issueToken(store, { ...binding, ttlMs }, Date.now())).text;
}

interface StartOptions {
  readonly token?: string;
  readonly workDir?: string;
  readonly brokerUrl?: string;
  readonly log?: Logger;
}

async function start(robotId: string, options: StartOptions = {}): Promise<RunningAgent> {
  const agent = await startAgent({
    brokerUrl: options.brokerUrl ?? robots.url,
    robotId,
    token: options.token,
    heartbeatIntervalMs: 30_000,
    workDir: options.workDir ?? join(dir, robotId),
    labels: {},
    clock: systemClock,
    log: options.log ?? silentLogger,
    stopTasksOnExit: true,
  });
  agents.push(agent);
  return agent;
}

const phase = (name: string, wanted: string) => watched(client, Robot, name, (robot) => robot?.status?.phase === wanted);

const task = (name: string, targetRobot: string) => ({
  metadata: { name, namespace },
  spec: { name, targetRobot, driver: "raw_exec" as const, config: { execConfig: { command: "/bin/true" } } },
});

describe("a robot with a one-time token", () => {
  it("joins with its own key, runs tasks, and needs no token afterwards", async () => {
    const agent = await start("joins-one", { token: await token({ robot: "joins-one" }) });
    const joined = await phase("joins-one", "Online");
    expect(joined?.status?.identity?.keySha256).toMatch(/^[0-9a-f]{64}$/);
    expect(joined?.status?.conditions?.find(({ type }) => type === "Approved")?.reason).toBe("Joined");
    expect(statSync(join(dir, "joins-one", ".agent", "identity.json")).mode & 0o777).toBe(0o600);
    await client.create(Task, task("first", "joins-one"));
    await watched(client, Task, "first", (each) => each?.status?.state === "completed");
    await agent.stop();
    await phase("joins-one", "Offline");
    await start("joins-one");
    await phase("joins-one", "Online");
  });

  it("is rejected if the token was used, has expired, or is for another robot", async () => {
    const shared = await token({ labels: { site: "a" } });
    await start("reject-one", { token: shared });
    const one = await phase("reject-one", "Online");
    expect(one?.spec.labels).toEqual({ site: "a" });
    for (const [robotId, text, reason] of [
      ["reject-two", async () => shared, /was used at/],
      ["reject-three", () => token({ robot: "reject-one" }), /is for robot reject-one/],
      ["reject-four", () => token({ robot: "reject-four" }, -1), /expired at/],
      [
        "reject-five",
        async () => (await token({ robot: "reject-five" })).replace(/\..{8}/, ".AAAAAAAA"),
        /its secret is wrong/,
      ],
    ] as const) {
      await start(robotId, { token: await text() });
      await rejected(robotId, "JoinRejected", reason);
      expect(await ignoreNotFound(client.get(Robot, { namespace, name: robotId }))).toBeUndefined();
    }
    const { tokens } = await readTokens({ client, namespace, fieldManager: "test" });
    expect(tokens.filter(({ labels }) => labels?.site === "a").map(({ used }) => used?.robot)).toEqual(["reject-one"]);
    expect(JSON.stringify(tokens)).not.toContain(shared.split(".")[1]);
  });

  it("joins while many others join", async () => {
    const ids = Array.from({ length: 12 }, (_, index) => `many-${index}`);
    const texts: string[] = [];
    for (const robot of ids) texts.push(await token({ robot }));
    const logger = recordingLogger();
    await Promise.all(ids.map((id, index) => start(id, { token: texts[index] ?? "", log: logger.log })));
    await Promise.all(ids.map((id) => phase(id, "Online")));
    expect(logger.lines.filter((line) => line.includes("no response from the server"))).toEqual([]);
  });

  it("does not send a one-time token that was copied incompletely", async () => {
    const text = await token({ robot: "typo-one" });
    await expect(start("typo-one", { token: text.slice(0, -1) })).rejects.toThrow(
      "the join token is incomplete: copy all three parts, ID.SECRET.PIN",
    );
  });

  it("keeps a token that names another certificate authority unused", async () => {
    const text = await token({ robot: "impostor-one" });
    const agent = await start("impostor-one", { token: text.replace(/\.[^.]+$/, `.${"A".repeat(43)}`) });
    await rejected("impostor-one", "JoinRejected", /does not trust the certificate authority, which was replaced/);
    await agent.stop();
    await start("impostor-one", { token: text });
    await phase("impostor-one", "Online");
  });

  it("gets nothing until it is approved, if its token requires it", async () => {
    await start("waits-one", { token: await token({ robot: "waits-one", requiresApproval: true }) });
    const waiting = await watched(client, Robot, "waits-one", (robot) => robot?.status?.connected === true);
    expect(waiting?.status?.phase ?? "Pending").toBe("Pending");
    await client.create(Task, task("early", "waits-one"));
    await watched(
      client,
      Robot,
      "waits-one",
      (robot) => robot?.status?.conditions?.some(({ reason }) => reason === "WaitingForApproval") === true,
    );
    expect(await run(approveCommand, "waits-one")).toBe(0);
    await phase("waits-one", "Online");
    await watched(client, Task, "early", (each) => each?.status?.state === "completed");
  });

  it("renews a certificate that expired while the robot was offline", async () => {
    const agent = await start("expired-one", { token: await token({ robot: "expired-one" }) });
    await phase("expired-one", "Online");
    await agent.stop();
    await phase("expired-one", "Offline");
    const { file, stored } = readIdentity("expired-one");
    const authority = await readRobotAuthority(client, namespace);
    const publicKey = publicKeyText(createPrivateKey(stored.joined.key));
    const facts = { robotId: "expired-one", publicKey, now: Date.now() - 2 * certificateLifeMs };
    const expired = await certifyRobot(authority?.authority ?? never(), facts);
    writeFileSync(file, JSON.stringify({ joined: { ...stored.joined, certificate: expired } }));
    await start("expired-one");
    await phase("expired-one", "Online");
    expect(Date.parse(new X509Certificate(readIdentity("expired-one").stored.joined.certificate).validTo)).toBeGreaterThan(
      Date.now(),
    );
  });

  it("does not start with a damaged key, instead of accepting messages without a signature", async () => {
    const workDir = join(dir, "damaged-one");
    mkdirSync(join(workDir, ".agent"), { recursive: true });
    writeFileSync(join(workDir, ".agent", "identity.json"), "{");
    await expect(start("damaged-one", { workDir, token: robots.token })).rejects.toThrow(
      /identity.json is damaged: restore it/,
    );
  });
});

describe("an attacker", () => {
  it("reaches with a robot's key only this robot's topics", async () => {
    for (const id of ["topics-one", "topics-two"]) {
      const agent = await start(id, { token: await token({ robot: id }) });
      await phase(id, "Online");
      await agent.stop();
    }
    await expect(connect("topics-one", { as: "topics-two" })).rejects.toThrow(/Not authorized/i);
    const own = await connect("topics-one");
    await expect(own.subscribeAsync(topics.dispatch("topics-two"), { qos: 1 })).rejects.toThrow(/subscribe/i);
    for (const topic of [
      topics.ownRegister("topics-two"),
      topics.status("topics-two", uid),
      topics.dispatch("topics-one"),
      topics.join("topics-two"),
    ]) {
      const attacker = await connect("topics-one");
      const closed = closedOf(attacker);
      attacker.publish(topic, JSON.stringify({ robotId: "topics-two" }), { qos: 1 });
      await closed;
    }
  });

  it("cannot connect as a robot with a key by password, nor over a connection without TLS", async () => {
    await start("password-one", { token: await token({ robot: "password-one" }) });
    await phase("password-one", "Online");
    const client1 = robots.connect({ robotId: "password-one" });
    await expect(client1).rejects.toThrow(/Not authorized/i);
  });

  it("cannot use a revoked key: its connection is closed and it is rejected, until the robot joins again", async () => {
    const agent = await start("revoked-one", { token: await token({ robot: "revoked-one" }) });
    const before = await phase("revoked-one", "Online");
    await agent.stop();
    await phase("revoked-one", "Offline");
    const thief = await connect("revoked-one");
    const closed = closedOf(thief);
    expect(await run(revokeCommand, "revoked-one")).toBe(0);
    await closed;
    await expect(connect("revoked-one")).rejects.toThrow(/Not authorized/i);
    await watched(
      client,
      Robot,
      "revoked-one",
      (robot) => robot?.status?.conditions?.some(({ reason }) => reason === "KeyRevoked") === true,
    );
    await start("revoked-one", { token: await token({ robot: "revoked-one" }) });
    const after = await phase("revoked-one", "Online");
    expect(after?.status?.identity?.keySha256).not.toBe(before?.status?.identity?.keySha256);
    await expect(robots.connect({ robotId: "revoked-one" })).rejects.toThrow(/Not authorized/i);
  });

  it("cannot bring a revoked and deleted robot back with its old token and key", async () => {
    const text = await token({ robot: "deleted-one" });
    const agent = await start("deleted-one", { token: text });
    await phase("deleted-one", "Online");
    await agent.stop();
    const { file, stored } = readIdentity("deleted-one");
    expect(await run(revokeCommand, "deleted-one")).toBe(0);
    await client.delete(Robot, { namespace, name: "deleted-one" });
    writeFileSync(file, JSON.stringify({ pending: { key: stored.joined.key, tokenId: text.split(".")[0] } }));
    await start("deleted-one", { token: text });
    await rejected("deleted-one", "JoinRejected", /was used at/);
    expect(await ignoreNotFound(client.get(Robot, { namespace, name: "deleted-one" }))).toBeUndefined();
  });

  it("cannot use an approval that was given to a key that is revoked", async () => {
    const agent = await start("approval-one", { token: await token({ robot: "approval-one", requiresApproval: true }) });
    await watched(client, Robot, "approval-one", (robot) => robot?.status?.connected === true);
    expect(await run(approveCommand, "approval-one")).toBe(0);
    await phase("approval-one", "Online");
    expect(await run(revokeCommand, "approval-one")).toBe(0);
    await agent.stop();
    await start("approval-one", { token: await token({ robot: "approval-one", requiresApproval: true }) });
    const robot = await watched(
      client,
      Robot,
      "approval-one",
      (each) => each?.status?.conditions?.some(({ reason }) => reason === "WaitingForApproval") === true,
    );
    expect(robot?.spec.approved).toBeUndefined();
  });

  it("cannot take over a robot of the shared join token with a token for a label", async () => {
    await start("shared-one", { token: robots.token });
    await phase("shared-one", "Online");
    const logger = recordingLogger();
    const text = await token({ labels: {} });
    await start("shared-one", { token: text, workDir: join(dir, "label-thief"), log: logger.log });
    await logger.logged(/bound to another agent; create a token for it: keelson robots token create --robot shared-one/);
  });

  it("cannot register with a copied key without the instance that reveals a second agent", async () => {
    const agent = await start("anonymous-one", { token: await token({ robot: "anonymous-one" }) });
    await phase("anonymous-one", "Online");
    await agent.stop();
    const thief = await connect("anonymous-one");
    const inbox = messagesOf(thief);
    await thief.subscribeAsync(topics.response("anonymous-one"), { qos: 1 });
    const registration = JSON.stringify({ robotId: "anonymous-one", token: "" });
    await thief.publishAsync(topics.ownRegister("anonymous-one"), registration, { qos: 1 });
    const answer = await inbox.next(topics.response("anonymous-one"));
    expect(answer).toMatchObject({ success: false, message: expect.stringContaining("must have an instanceId") });
  });

  it("cannot join as a robot whose key is not revoked, even with a token for it", async () => {
    await start("taken-one", { token: await token({ robot: "taken-one" }) });
    await phase("taken-one", "Online");
    const logger = recordingLogger();
    await start("taken-one", { token: await token({ robot: "taken-one" }), workDir: join(dir, "thief"), log: logger.log });
    await logger.logged(/has joined with another key; revoke it first/);
  });

  it("cannot run two agents with a copied key: the robot is held until it is approved", async () => {
    const first = await start("clone-one", { token: await token({ robot: "clone-one" }) });
    await phase("clone-one", "Online");
    await first.stop();
    cpSync(join(dir, "clone-one"), join(dir, "copy"), { recursive: true });
    await start("clone-one");
    const clone = await start("clone-one", { workDir: join(dir, "copy") });
    const held = await watched(
      client,
      Robot,
      "clone-one",
      (robot) => robot?.status?.conditions?.some(({ type, status }) => type === "Held" && status === "True") === true,
    );
    expect(held?.status?.phase).toBe("Pending");
    expect(held?.metadata.annotations?.[heldAnnotation]).toMatch(/two agents use the id clone-one/);
    await rejected("clone-one", "DuplicateAgent", /displace each other/);
    await clone.stop();
    expect(await run(approveCommand, "clone-one")).toBe(0);
    const released = await phase("clone-one", "Online");
    // It was approved by its token already.
    expect(released?.spec.approved).toBeUndefined();
  });
});

describe("a compromised broker", () => {
  it("cannot have a robot run forged, changed, foreign, expired or replayed dispatches, and the robot reports them", async () => {
    const real = await start("broker-one", { token: await token({ robot: "broker-one" }) });
    await phase("broker-one", "Online");
    await real.stop();
    const authority = await readRobotAuthority(client, namespace);
    if (authority === undefined) throw new Error("no authority");
    const robot = await client.get(Robot, { namespace, name: "broker-one" });
    // It has the broker's own key and lets the robot in, but not the key that signs messages.
    const broker = await startBroker({
      port: 0,
      joinToken: "",
      log: silentLogger,
      identityOf: () => identityOf(robot),
      loadTls: async () => ({
        certificate: authority.server.certificate,
        key: authority.server.key,
        authorities: authority.trusted.map(({ x509 }) => x509),
      }),
    });
    const bridge = mqtt.connect(broker.url, { clientId: "bridge", ...broker.bridgeCredentials, reconnectPeriod: 0 });
    try {
      await new Promise<void>((resolve) => bridge.once("connect", () => resolve()));
      await bridge.subscribeAsync([topics.allOwnRegister, topics.allRejected, topics.allStatus], { qos: 1 });
      const inbox = messagesOf(bridge);
      await start("broker-one", { brokerUrl: broker.url });
      const { nonce } = await inbox.next(topics.ownRegister("broker-one"));
      const respond = topics.response("broker-one");
      const response = { success: true, message: "ok", nonce, time: Date.now(), trust: authority.trust };
      await bridge.publishAsync(respond, sealMessage(respond, response, authority.signingKey, Date.now()), { qos: 1 });

      const topic = topics.dispatch("broker-one");
      const marker = join(dir, "ran");
      const dispatch = (id: string, file: string) => ({
        action: "create",
        task: {
          metadata: { uid: id },
          spec: { driver: "raw_exec", config: { execConfig: { command: "/usr/bin/touch", args: [file] } } },
          status: { attempt: 1 },
        },
      });
      const forged = generateKeyPairSync("ed25519").privateKey;
      const valid = sealMessage(topic, dispatch(uid, `${marker}-valid`), authority.signingKey, Date.now());
      const bad = dispatch(uid.replace(/1$/, "2"), marker);
      for (const payload of [
        JSON.stringify(bad),
        sealMessage(topic, bad, { id: authority.signingKey.id, key: forged }, Date.now()),
        sealMessage(topic, bad, { id: "k99", key: forged }, Date.now()),
        sealMessage(topics.dispatch("broker-two"), bad, authority.signingKey, Date.now()),
        sealMessage(topic, bad, authority.signingKey, Date.now() - messageValidityMs - 60_000),
        valid.replace("-valid", ""),
        `${valid.slice(0, -1)},"task":${JSON.stringify(bad.task)}}`,
      ]) {
        await bridge.publishAsync(topic, payload, { qos: 1 });
      }
      expect(await inbox.next(topics.rejected("broker-one"))).toMatchObject({ topic, reason: "it is not signed" });
      // The genuine one still runs. Messages are handled in order, so all others were dropped.
      await bridge.publishAsync(topic, valid, { qos: 1 });
      await inbox.next(topics.status("broker-one", uid), (status) => status.state === "completed");
      expect(existsSync(`${marker}-valid`)).toBe(true);
      expect(existsSync(marker)).toBe(false);
      // A replay starts nothing.
      rmSync(`${marker}-valid`);
      await bridge.publishAsync(topic, valid, { qos: 1 });
      await inbox.next(topics.status("broker-one", uid), (status) => status.state === "completed");
      expect(existsSync(`${marker}-valid`)).toBe(false);
    } finally {
      await bridge.endAsync(true);
      await broker.stop();
    }
  });

  it("cannot turn a robot's time back with an old response", async () => {
    const agent = await start("clock-one", { token: await token({ robot: "clock-one" }) });
    await phase("clock-one", "Online");
    await agent.stop();
    const authority = await readRobotAuthority(client, namespace);
    const identity = await AgentIdentity.open(join(dir, "clock-one", ".agent", "identity.json"), "clock-one", silentLogger);
    const messages = new GenuineMessages({
      ...{ robotId: "clock-one", identity, clock: systemClock, log: silentLogger },
      bootMs: () => 0,
      report: () => {},
      onTime: () => {},
      onTrust: () => {},
      register: () => {},
    });
    const nonce = messages.nextNonce();
    const topic = topics.response("clock-one");
    const response = (time: number, of: string | undefined) =>
      Buffer.from(
        sealMessage(topic, { success: true, message: "", nonce: of, time }, authority?.signingKey ?? never(), Date.now()),
      );
    await messages.open(topic, response(1000, "of an earlier registration"));
    expect(messages.now).toBeUndefined();
    await messages.open(topic, response(Date.now(), nonce));
    const { now, since } = messages;
    expect(now).toBeDefined();
    expect(since).toBeGreaterThan(1000);
    await messages.open(topic, response(1000, nonce));
    expect(messages.now).toBe(now);
    expect(messages.since).toBe(since);
  });
});

function never(): never {
  throw new Error("no authority");
}

const uid = "00000000-0000-4000-8000-000000000001";
const clients: MqttClient[] = [];

/** Connects with the key of an agent that has stopped, as robot `as`. */
function connect(robotId: string, { as = robotId }: { readonly as?: string } = {}): Promise<MqttClient> {
  const { key, certificate, authority } = readIdentity(robotId).stored.joined;
  const attacker = mqtt.connect(robots.url.replace("mqtt:", "mqtts:"), {
    ...{ protocolVersion: 4, reconnectPeriod: 0, clientId: `k8s4r-agent-${as}`, username: as },
    ...{ key, cert: certificate, ca: authority, checkServerIdentity: () => undefined },
  });
  clients.push(attacker);
  return new Promise((resolve, reject) => {
    attacker.once("connect", () => resolve(attacker));
    attacker.on("error", reject);
  });
}

const closedOf = (attacker: MqttClient): Promise<void> => new Promise((resolve) => attacker.once("close", () => resolve()));

function readIdentity(robotId: string): {
  readonly file: string;
  readonly stored: StoredTestIdentity;
} {
  const file = join(dir, robotId, ".agent", "identity.json");
  return { file, stored: readStoredIdentity(file) };
}

/** Waits for an event about a rejected robot. */
async function rejected(robotId: string, reason: string, note: RegExp): Promise<void> {
  const watch = await client.watch(Event, { namespace, resourceVersion: "0" });
  try {
    for await (const { type, object } of watch) {
      if (type === "BOOKMARK") continue;
      const text = object.message ?? "";
      if (object.reason === reason && text.includes(robotId) && note.test(text)) return;
    }
  } finally {
    watch.close();
  }
}

/** Runs a command with the test's client. */
function run(command: CommandDefinition, ...args: string[]): Promise<number> {
  const open = createClient({ transport: robots.environment.transport(), fieldManager: "test" });
  const sink = new PassThrough();
  return command.run({
    ...{ args, flags: {}, stdout: sink, stderr: sink, clock: systemClock, log: silentLogger },
    signal: new AbortController().signal,
    client: async () => open,
  });
}

function recordingLogger(): { readonly log: Logger; readonly lines: readonly string[]; logged(text: RegExp): Promise<void> } {
  const lines: string[] = [];
  let wake = (): void => {};
  const record = (_: unknown, text: string): void => {
    lines.push(text);
    wake();
  };
  return {
    lines,
    log: { ...silentLogger, warn: record, error: record, info: record },
    async logged(text) {
      while (!lines.some((line) => text.test(line))) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

type Body = Readonly<Record<string, unknown>>;

/** The messages of a client by topic, each returned once. */
function messagesOf(source: MqttClient): { next(topic: string, matches?: (body: Body) => boolean): Promise<Body> } {
  const messages: { readonly topic: string; readonly body: Body }[] = [];
  let wake = (): void => {};
  source.on("message", (topic, payload) => {
    if (payload.length > 0) messages.push({ topic, body: JSON.parse(payload.toString()) });
    wake();
  });
  return {
    async next(topic, matches = () => true) {
      for (;;) {
        const index = messages.findIndex((each) => each.topic === topic && matches(each.body));
        const [found] = index < 0 ? [] : messages.splice(index, 1);
        if (found !== undefined) return found.body;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
