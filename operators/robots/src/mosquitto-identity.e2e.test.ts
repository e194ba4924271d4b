import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { appendFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { systemClock } from "@keelson/api-machinery/time";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import { freePort } from "@keelson/execution/testing";
import { type CommandDefinition, type RunningOperator, startOperator } from "@keelson/operator";
import mqtt, { type MqttClient } from "mqtt";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { Robot } from "./api/robot.ts";
import { Task } from "./api/task.ts";
import { identitySecret } from "./api/names.ts";
import { Secret } from "./api/secret.ts";
import { revokeCommand } from "./commands/approve.ts";
import { caCommand } from "./commands/ca.ts";
import { mosquittoConfigCommand } from "./commands/broker/mosquitto-config.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { issueToken } from "./commands/token.ts";
import { authorityFeature } from "./identity/authority/trusting-robots.ts";
import { publicKeyText } from "./identity/one-time-token.ts";
import { type AuthorityState, parseAuthorityState } from "./identity/authority/authority-state.ts";
import { readRobotAuthority } from "./identity/authority/authority-store.ts";
import { certifyRobot, type RobotAuthority } from "./identity/authority/robot-authority.ts";
import { robots } from "./operator.ts";
import { topics } from "./protocol/messages.ts";
import { type Mosquitto, startMosquitto } from "./testing/mosquitto.ts";
import { readStoredIdentity } from "./testing/stored-identity.ts";

const namespace = "default";
const uid = "00000000-0000-4000-8000-000000000001";
let dir: string;
let broker: Mosquitto;
let environment: TestEnvironment;
let client: Client;
let operator: RunningOperator;
let authority: RobotAuthority;
let port: number;
let joinPort: number;
const agents: RunningAgent[] = [];
const connections: MqttClient[] = [];

/* A Mosquitto that `keelson robots mosquitto-config` has configured, and two robots that joined through it. */
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-mosquitto-identity-"));
  [port, joinPort] = [await freePort(), await freePort()];
  environment = await startTestEnvironment({ crds: robots.resources.map((resource) => resource.crd) });
  client = openClient();
  await configure();
  appendFileSync(join(dir, "broker", "acl"), "\nuser admin\ntopic readwrite k8s4r/#\n");
  // Mosquitto drops root's privileges otherwise, and cannot read the files of the test.
  if (process.getuid?.() === 0) appendFileSync(join(dir, "broker", "mosquitto.conf"), "user root\n");
  broker = await startMosquitto(join(dir, "broker", "mosquitto.conf"));
  operator = await startOperator({
    operator: robots,
    client,
    dataDir: join(dir, "data"),
    flags: { "mqtt-url": `mqtts://127.0.0.1:${port}` },
  });
  const loaded = await readRobotAuthority(client, namespace);
  if (loaded === undefined) throw new Error("no authority");
  authority = loaded;
  for (const robotId of ["one", "two"]) await joinRobot(robotId);
});

afterAll(async () => {
  for (const each of connections) await each.endAsync(true);
  for (const agent of agents) await agent.stop();
  await operator.stop();
  await broker.stop();
  await environment.stop();
  rmSync(dir, { recursive: true, force: true });
});

const openClient = (): Client => createClient({ transport: environment.transport(), fieldManager: "test" });

async function run(
  command: CommandDefinition,
  args: readonly string[],
  flags: Readonly<Record<string, string>>,
): Promise<void> {
  const sink = new PassThrough();
  const exitCode = await command.run({
    ...{ args, flags, stdout: sink, stderr: sink, clock: systemClock, log: silentLogger },
    signal: new AbortController().signal,
    client: async () => openClient(),
  });
  expect(exitCode).toBe(0);
}

const configure = (): Promise<void> =>
  run(mosquittoConfigCommand, [], {
    dir: join(dir, "broker"),
    "bind-address": "127.0.0.1",
    port: String(port),
    "join-port": String(joinPort),
  });

async function joinRobot(robotId: string): Promise<void> {
  const store = { client, namespace, fieldManager: "test" };
  const { text } = await issueToken(store, { robot: robotId, ttlMs: 60_000 }, Date.now());
  agents.push(
    await startAgent({
      brokerUrl: `mqtts://127.0.0.1:${port}`,
      joinUrl: `mqtts://127.0.0.1:${joinPort}`,
      ...{ robotId, token: text, heartbeatIntervalMs: 30_000, workDir: join(dir, robotId), labels: {} },
      ...{ clock: systemClock, log: silentLogger, stopTasksOnExit: true, random: () => 0 },
    }),
  );
  await watched(client, Robot, robotId, (robot) => robot?.status?.phase === "Online");
}

function never(): never {
  throw new Error("missing");
}

interface Login {
  readonly certificate: string;
  readonly key: string;
}

/** The key and certificate of a robot, as a thief would have them. */
function stolen(robotId: string): Login {
  return readStoredIdentity(join(dir, robotId, ".agent", "identity.json")).joined;
}

/** Connects with a certificate; without one, or with one that is not accepted, it rejects. */
function connect(login: Login | undefined, clientId = "attacker"): Promise<MqttClient> {
  const connection = mqtt.connect(`mqtts://127.0.0.1:${port}`, {
    ...{ protocolVersion: 5, reconnectPeriod: 0, clientId, ca: authority.authority.certificate },
    ...(login === undefined ? {} : { cert: login.certificate, key: login.key }),
  });
  connections.push(connection);
  return new Promise((resolve, reject) => {
    connection.once("connect", () => resolve(connection));
    connection.on("error", reject);
    connection.once("close", () => reject(new Error("closed")));
  });
}

const task = (name: string, targetRobot: string, line: string) => ({
  metadata: { name, namespace },
  spec: { name, targetRobot, driver: "raw_exec" as const, config: { execConfig: { command: "/bin/sh", args: ["-c", line] } } },
});

describe("Mosquitto with the generated configuration", () => {
  it("listens at the two ports only", () => {
    const ports = [...broker.log().matchAll(/Opening \S+ listen socket on port (\d+)/g)].map(([, each]) => Number(each));
    expect(ports.toSorted()).toEqual([port, joinPort].toSorted());
  });

  it("runs tasks of robots that joined through it", async () => {
    await client.create(Task, task("first", "one", "exit 0"));
    const done = await watched(client, Task, "first", (each) => each?.status?.state === "completed");
    expect(done?.status?.exitCode).toBe(0);
  });

  it("rejects a client without a certificate", async () => {
    await expect(connect(undefined)).rejects.toThrow();
  });

  it("delivers nothing of a robot to another robot's topics, nor to it", async () => {
    // A connection with a robot's certificate displaces its agent, whatever client id it uses, and the agent would displace the thief.
    await agents[0]?.stop();
    await client.create(Task, task("running", "two", "while :; do sleep 1; done"));
    const running = await watched(client, Task, "running", (each) => each?.status?.state === "running");
    const before = broker.log().length;
    const thief = await connect(stolen("one"), "k8s4r-agent-two");
    const received: string[] = [];
    thief.on("message", (topic) => received.push(topic));
    const granted = await thief.subscribeAsync(["k8s4r/robots/two/#", "#"], { qos: 1 }).catch(() => []);
    expect(granted.every(({ qos }) => qos >= 0)).toBe(true);
    const { uid: taskUid = "" } = running?.metadata ?? {};
    const attempt = running?.status?.attempt ?? 1;
    const forged = {
      ...{ taskUid, robotName: "two", state: "completed", event: "Completed", message: "", updatedAt: "", attempt, seq: 99 },
    };
    const bodies: readonly (readonly [string, object])[] = [
      [topics.status("two", taskUid), forged],
      [topics.ownRegister("two"), { robotId: "two" }],
      [topics.register, { robotId: "two", token: "" }],
      [topics.online("two"), { online: false }],
      [topics.dispatch("two"), { action: "delete", task: { metadata: { uid: taskUid }, status: { attempt } } }],
    ];
    for (const [topic, body] of bodies) {
      // MQTT 5: the acknowledgement says that the message was not authorized.
      await expect(thief.publishAsync(topic, JSON.stringify(body), { qos: 1 })).rejects.toThrow(/Not authorized/i);
    }
    await thief.endAsync(true);
    await client.create(Task, task("after", "two", "exit 0"));
    await watched(client, Task, "after", (each) => each?.status?.state === "completed");
    expect((await client.get(Task, { namespace, name: "running" })).status?.state).toBe("running");
    expect((await client.get(Robot, { namespace, name: "two" })).status?.phase).toBe("Online");
    // The thief's connection has replaced none of robot two.
    await expect.poll(() => broker.log().slice(before)).toMatch(/New client connected from \S+ as one /);
    expect(broker.log().slice(before)).not.toMatch(/Client \S*two already connected/);
    expect(received.filter((topic) => topic.includes("/two/"))).toEqual([]);
  });

  it("cannot have a robot run a dispatch that it forged", async () => {
    // The broker's administrator can publish anything, as the bridge can.
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const certificate = await certifyRobot(authority.authority, {
      robotId: "admin",
      publicKey: publicKeyText(publicKey),
      now: Date.now(),
    });
    const admin = await connect({ certificate, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() });
    const marker = join(dir, "ran");
    const rejected = new Promise<string>((resolve) => admin.on("message", (_, payload) => resolve(payload.toString())));
    await admin.subscribeAsync(topics.rejected("two"), { qos: 1 });
    const forged = { action: "create", task: { ...task("forged", "two", `touch ${marker}`), status: { attempt: 1 } } };
    const body = JSON.stringify({ ...forged, task: { ...forged.task, metadata: { uid } } });
    await admin.publishAsync(topics.dispatch("two"), body, { qos: 1 });
    expect(JSON.parse(await rejected)).toEqual({ topic: topics.dispatch("two"), reason: "it is not signed" });
    expect(existsSync(marker)).toBe(false);
    await admin.endAsync(true);
  });

  it("revokes a robot: the bridge ignores it immediately, and the broker rejects it with the new list", async () => {
    await run(revokeCommand, ["one"], {});
    await watched(
      client,
      Robot,
      "one",
      (robot) => robot?.status?.conditions?.some(({ reason }) => reason === "KeyRevoked") === true,
    );
    await configure();
    if (process.getuid?.() === 0) appendFileSync(join(dir, "broker", "mosquitto.conf"), "user root\n");
    await broker.reload();
    await expect(connect(stolen("one"))).rejects.toThrow(/certificate revoked|closed|ECONNRESET/i);
    // Other robots can still connect.
    await connect(stolen("two"));
  });

  it("replaces the certificate authority", async () => {
    // The test above has displaced the agent, which returns with a longer backoff.
    for (const each of connections.splice(0)) await each.endAsync(true);
    const restart = async (): Promise<void> => {
      await configure();
      if (process.getuid?.() === 0) appendFileSync(join(dir, "broker", "mosquitto.conf"), "user root\n");
      await broker.stop();
      broker = await startMosquitto(join(dir, "broker", "mosquitto.conf"));
    };
    const state = (is: (state: AuthorityState) => boolean) =>
      watched(client, Secret, identitySecret, (secret) => {
        const found = parseAuthorityState(secret?.data);
        return found !== undefined && is(found);
      });
    const trusts = (...pins: readonly string[]) =>
      watched(client, Robot, "two", (robot) => {
        const { status } = robot ?? {};
        const features = status?.agentFeatures?.filter((each) => each.startsWith("authority-")) ?? [];
        return status?.phase === "Online" && features.join() === pins.map(authorityFeature).join();
      });
    await run(caCommand, ["rotate"], {});
    // Mosquitto does not know the new authority yet, so no robot gets a certificate of it.
    const staged = parseAuthorityState((await client.get(Secret, { namespace, name: identitySecret })).data);
    expect([staged?.next !== undefined, staged?.previous]).toEqual([true, undefined]);
    await restart();
    await state(({ previous }) => previous !== undefined);
    const fresh = await readRobotAuthority(client, namespace);
    if (fresh === undefined) throw new Error("no authority");
    await trusts(authority.pin, fresh.pin);
    await expect
      .poll(() => new X509Certificate(stolen("two").certificate).verify(fresh.trusted[1]?.x509.publicKey ?? never()))
      .toBe(true);
    await joinRobot("three");
    await run(caCommand, ["retire"], {});
    await restart();
    await state(({ previous }) => previous === undefined);
    await trusts(fresh.pin);
    await client.create(Task, task("with-new-authority", "two", "exit 0"));
    await watched(client, Task, "with-new-authority", (each) => each?.status?.state === "completed");
  });
});
