import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { Event } from "@keelson/api-machinery/kinds";
import { systemClock } from "@keelson/api-machinery/time";
import { type Client, createClient } from "@keelson/client";
import { watched } from "@keelson/client/testing";
import { silentLogger } from "@keelson/controller";
import mqtt from "mqtt";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startAgent } from "./agent/agent.ts";
import { identitySecret } from "./api/names.ts";
import { Robot } from "./api/robot.ts";
import { Secret } from "./api/secret.ts";
import { caCommand } from "./commands/ca.ts";
import { revokeCommand } from "./commands/approve.ts";
import type { RunningAgent } from "./commands/start-agent.ts";
import { issueToken } from "./commands/token.ts";
import { currentAuthorityState, parseAuthorityState } from "./identity/authority/authority-state.ts";
import { readRobotAuthority } from "./identity/authority/authority-store.ts";
import type { RobotAuthority } from "./identity/authority/robot-authority.ts";
import { authorityFeature } from "./identity/authority/trusting-robots.ts";
import type { CommandDefinition } from "@keelson/operator";
import { namespace, RobotsEnvironment } from "./testing/robots-environment.ts";
import { readStoredIdentity } from "./testing/stored-identity.ts";

let robots: RobotsEnvironment;
let client: Client;
let dir: string;
const agents: RunningAgent[] = [];

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-rotation-"));
  robots = await RobotsEnvironment.start();
  client = robots.client;
});

afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.stop();
  await robots[Symbol.asyncDispose]();
  rmSync(dir, { recursive: true, force: true });
});

async function start(robotId: string, token?: string): Promise<RunningAgent> {
  const agent = await startAgent({
    ...{ brokerUrl: robots.url, robotId, token, heartbeatIntervalMs: 30_000, workDir: join(dir, robotId), labels: {} },
    ...{ clock: systemClock, log: silentLogger, stopTasksOnExit: true, random: () => 0 },
  });
  agents.push(agent);
  return agent;
}

async function stop(agent: RunningAgent): Promise<void> {
  agents.splice(agents.indexOf(agent), 1);
  await agent.stop();
}

const tokenFor = async (robot: string): Promise<string> =>
  (await issueToken({ client, namespace, fieldManager: "test" }, { robot, ttlMs: 60_000 }, Date.now())).text;

async function run(command: CommandDefinition, args: readonly string[], flags: Readonly<Record<string, true>> = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const exitCode = await command.run({
    ...{ args, flags, stdout, stderr, clock: systemClock, log: silentLogger, signal: new AbortController().signal },
    client: async () => createClient({ transport: robots.environment.transport(), fieldManager: "test" }),
  });
  return { exitCode, stdout: String(stdout.read() ?? ""), stderr: String(stderr.read() ?? "") };
}

const ca = (action: string, flags?: Readonly<Record<string, true>>) => run(caCommand, [action], flags);

async function authority(): Promise<RobotAuthority> {
  const found = await readRobotAuthority(client, namespace);
  if (found === undefined) throw new Error("no authority");
  return found;
}

/** Waits for a state of the authority. */
const state = (is: (state: NonNullable<ReturnType<typeof parseAuthorityState>>) => boolean) =>
  watched(client, Secret, identitySecret, (secret) => {
    const found = parseAuthorityState(secret?.data);
    return found !== undefined && is(found);
  });

const isSignedBy = (certificate: string | undefined, issuer: string): boolean =>
  certificate !== undefined && new X509Certificate(certificate).verify(new X509Certificate(issuer).publicKey);

/** Waits until a robot has a certificate of an authority and says that it trusts it. */
const follows = (name: string, issuer: RobotAuthority) =>
  watched(
    client,
    Robot,
    name,
    (robot) =>
      isSignedBy(robot?.status?.identity?.certificate, issuer.authority.certificate) &&
      robot?.status?.agentFeatures?.includes(authorityFeature(issuer.pin)) === true,
  );

const online = (name: string) => watched(client, Robot, name, (robot) => robot?.status?.phase === "Online");
const offline = (name: string) => watched(client, Robot, name, (robot) => robot?.status?.phase === "Offline");

/** The authority that has signed the certificate that the broker presents. */
async function presented(): Promise<X509Certificate> {
  const { identity } = (await client.get(Robot, { namespace, name: "one" })).status ?? {};
  expect(identity).toBeDefined();
  const stored = readStoredIdentity(join(dir, "one", ".agent", "identity.json")).joined;
  const connection = mqtt.connect(robots.url.replace("mqtt:", "mqtts:"), {
    ...{ reconnectPeriod: 0, rejectUnauthorized: false, key: stored.key, cert: stored.certificate },
  });
  connection.on("error", () => {});
  await new Promise((resolve) => connection.stream.once("secureConnect", resolve));
  const peer = (connection.stream as unknown as { getPeerX509Certificate(): X509Certificate }).getPeerX509Certificate();
  await connection.endAsync(true);
  return peer;
}

it("replaces the authority of connected robots, and of one that returns while the old authority is trusted", async () => {
  await start("one", await tokenFor("one"));
  const late = await start("late", await tokenFor("late"));
  for (const name of ["one", "late"]) await online(name);
  await stop(late);
  await offline("late");
  const old = await authority();

  expect(await ca("rotate")).toMatchObject({ exitCode: 0 });
  await state(({ previous }) => previous !== undefined);
  const fresh = await authority();
  expect(fresh.pin).not.toBe(old.pin);
  await follows("one", fresh);
  // Robots that were away can verify the broker, which still has a certificate of the old authority.
  expect((await presented()).verify(new X509Certificate(old.authority.certificate).publicKey)).toBe(true);
  expect(await ca("rotate")).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("a rotation is under way (Issuing)"),
  });
  const refused = await ca("retire");
  expect(refused).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/still needed.*\n {2}robot late: last heartbeat 2/),
  });
  expect((await ca("status")).stdout).toMatch(/previous .* 2 of 2\n(.*\n)*Robots that do not trust the newest one: late\n/);

  await start("late");
  await follows("late", fresh);
  // A robot that joins with a token of the new authority does not know the old one.
  await start("new", await tokenFor("new"));
  await follows("new", fresh);

  expect(await ca("retire")).toMatchObject({ exitCode: 0 });
  await state(({ previous }) => previous === undefined);
  expect((await presented()).verify(new X509Certificate(fresh.authority.certificate).publicKey)).toBe(true);
  for (const name of ["one", "late", "new"]) {
    const left = await watched(client, Robot, name, (robot) => {
      const { agentFeatures = [], phase } = robot?.status ?? {};
      return phase === "Online" && agentFeatures.filter((each) => each.startsWith("authority-")).length === 1;
    });
    expect(left?.status?.agentFeatures).toContain(authorityFeature(fresh.pin));
  }
  // Nothing that was in the Secret before is still trusted.
  const end = await authority();
  expect(end.state.keys.map(({ id }) => id)).not.toContain(old.signingKey.id);
  expect(end.bundle).not.toContain(old.authority.certificate);
  expect(await ca("status")).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("Idle: ") });
  const events = (await client.list(Event, { namespace })).items.map(({ reason }) => reason);
  expect(events).toEqual(expect.arrayContaining(["AuthorityStaged", "AuthorityPromoted", "AuthorityRetired"]));
});

it("cuts off a robot that missed the rotation only if forced, and admits it again with a new token", async () => {
  const agent = await start("missed", await tokenFor("missed"));
  await online("missed");
  await stop(agent);
  await offline("missed");
  const unused = await tokenFor("unused");
  await ca("rotate");
  await state(({ previous }) => previous !== undefined);
  expect((await ca("retire")).stderr).toMatch(new RegExp(`robot missed:.*\\n {2}join token ${unused.slice(0, 8)}: unused`));
  expect(await ca("retire", { force: true })).toMatchObject({ exitCode: 0 });
  await state(({ previous }) => previous === undefined);

  const before = (await client.get(Robot, { namespace, name: "missed" })).status?.identity?.certificate;
  await run(revokeCommand, ["missed"]);
  await start("missed", await tokenFor("missed"));
  const returned = await online("missed");
  expect(returned?.status?.identity?.certificate).not.toBe(before);
  expect(isSignedBy(returned?.status?.identity?.certificate, (await authority()).authority.certificate)).toBe(true);
});

it("continues after the operator was stopped before each step", async () => {
  await start("one", await tokenFor("one"));
  await online("one");
  const old = await authority();
  // Each step is one write of the Secret, so a crash leaves one of these states behind.
  await robots.stopOperator();
  await ca("rotate");
  expect((await authority()).state.next).toBeDefined();
  await robots.startOperator();
  await state(({ previous }) => previous !== undefined);
  await robots.stopOperator();
  const fresh = await authority();
  expect(fresh.trusted.map(({ pin }) => pin)).toEqual([old.pin, fresh.pin]);
  for (const agent of agents.slice()) await stop(agent);
  await robots.startOperator();
  await start("one");
  await follows("one", fresh);
  await robots.stopOperator();
  expect(await ca("retire")).toMatchObject({ exitCode: 0 });
  expect((await authority()).state.isRetiring).toBe(true);
  for (const agent of agents.slice()) await stop(agent);
  await robots.startOperator();
  await state(({ previous }) => previous === undefined);
  await start("one");
  await watched(client, Robot, "one", (robot) => {
    const features = robot?.status?.agentFeatures?.filter((each) => each.startsWith("authority-")) ?? [];
    return robot?.status?.phase === "Online" && features.join() === authorityFeature(fresh.pin);
  });
});

it("replaces an authority that expires soon by itself, once no robot needs it", async () => {
  await robots.stopOperator();
  // It was created 18 years and a day ago.
  const aged = await currentAuthorityState(undefined, Date.now() - (18 * 365 + 1) * 86_400_000);
  const data = { "authority.json": Buffer.from(JSON.stringify(aged)).toString("base64") };
  await client.delete(Secret, { namespace, name: identitySecret }).catch(() => {});
  await client.create(Secret, { metadata: { name: identitySecret, namespace }, type: "Opaque", data });
  const unused = await tokenFor("late");
  await robots.startOperator();
  await state(({ previous }) => previous?.certificate === aged.authority.certificate);
  // The unused token names the old authority.
  const late = await start("late", unused);
  await state(({ previous, next }) => previous === undefined && next === undefined);
  await follows("late", await authority());
  expect((await authority()).authority.certificate).not.toBe(aged.authority.certificate);
  await stop(late);
  await start("late");
  await online("late");
});
