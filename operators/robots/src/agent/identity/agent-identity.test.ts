import { createPrivateKey } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createVirtualClock } from "@keelson/api-machinery/testing";
import { startTestEnvironment, type TestEnvironment } from "@keelson/apiserver/testing";
import { type Client, createClient } from "@keelson/client";
import { silentLogger } from "@keelson/controller";
import mqtt from "mqtt";
import { afterAll, beforeAll, expect, it } from "vitest";
import { certificateLifeMs } from "../../identity/certificate-life.ts";
import { createOneTimeToken, formatOneTimeToken, publicKeyText } from "../../identity/one-time-token.ts";
import { ensureRobotAuthority } from "../../identity/authority/authority-store.ts";
import {
  type AuthorityState,
  dropAuthority,
  promoteAuthority,
  retireAuthority,
  stageAuthority,
} from "../../identity/authority/authority-state.ts";
import { certifyRobot, RobotAuthority } from "../../identity/authority/robot-authority.ts";
import { AgentIdentity } from "./agent-identity.ts";
import { AgentMembership } from "./agent-membership.ts";

const t0 = Date.UTC(2026, 0, 1);
let dir: string;
let environment: TestEnvironment;
let client: Client;
let older: RobotAuthority;
let newer: RobotAuthority;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "robots-agent-identity-"));
  environment = await startTestEnvironment();
  client = createClient({ transport: environment.transport(), fieldManager: "test" });
  older = await load(t0);
  newer = await load(older.rotateAt);
});

afterAll(async () => {
  await environment.stop();
  rmSync(dir, { recursive: true, force: true });
});

const load = (now: number): Promise<RobotAuthority> =>
  ensureRobotAuthority({ client, namespace: "default", now, fieldManager: "test" });

async function answerOf(authority: RobotAuthority, robotId: string, key: string, now: number) {
  const certificate = await certifyRobot(authority.authority, {
    robotId,
    publicKey: publicKeyText(createPrivateKey(key)),
    now,
  });
  return { nonce: "n", certificate, authority: authority.authority.certificate, trust: authority.trust };
}

const pemOf = (key: ReturnType<typeof createPrivateKey>): string => key.export({ type: "pkcs8", format: "pem" }).toString();

/** A robot that has joined at time `now`. */
async function joinedRobot(robotId: string, now: number): Promise<AgentIdentity> {
  const identity = await AgentIdentity.open(join(dir, robotId, "identity.json"), robotId, silentLogger);
  const key = pemOf(await identity.keyFor("token001"));
  await identity.accept(await answerOf(newer, robotId, key, now), newer.pin);
  return identity;
}

it("keeps newer keys of the authority, and a key that is about to join, when it renews its certificate", async () => {
  const identity = await joinedRobot("renews", t0);
  const { joined } = identity;
  const pending = pemOf(await identity.keyFor("token002"));
  await identity.accept(await answerOf(older, "renews", joined?.key ?? "", t0 + 60_000), undefined);
  expect(identity.joined?.certificate).not.toBe(joined?.certificate);
  expect(identity.joined?.trust.version).toBe(joined?.trust.version);
  expect(pemOf(await identity.keyFor("token002"))).toBe(pending);
});

it("rejects a controller that its join token does not name", async () => {
  const identity = await AgentIdentity.open(join(dir, "lured", "identity.json"), "lured", silentLogger);
  const answer = await answerOf(newer, "lured", pemOf(await identity.keyFor("token001")), t0);
  await expect(identity.accept(answer, "A".repeat(43))).rejects.toThrow(
    /not genuine: its certificate authority is not one that/,
  );
  expect(identity.joined).toBeUndefined();
});

it("trusts another authority only if one that it trusts has signed for it, and none that was retired", async () => {
  const identity = await joinedRobot("follows", t0);
  const staged = await stageAuthority(newer.state, t0);
  const promoted = promoteAuthority(staged);
  const dropped = dropAuthority(await retireAuthority(promoted, t0));
  const trust = (state: AuthorityState) => identity.trust(new RobotAuthority(state).trust);
  // An authority that signs only for itself.
  const foreign = new RobotAuthority({ ...dropped, version: 99 }).trust;
  expect(await identity.trust(foreign)).toBe(false);
  expect(await trust(staged)).toBe(true);
  expect(identity.pins).toEqual([newer.pin, new RobotAuthority(promoted).pin]);
  expect(await trust(promoted)).toBe(true);
  expect(await trust(staged)).toBe(false);
  expect(await trust(dropped)).toBe(true);
  expect(identity.pins).toEqual([new RobotAuthority(dropped).pin]);
  // The key of the retired authority was stolen.
  expect(await identity.trust(new RobotAuthority({ ...newer.state, version: 99 }).trust)).toBe(false);
  const reopened = await AgentIdentity.open(join(dir, "follows", "identity.json"), "follows", silentLogger);
  expect(reopened.pins).toEqual(identity.pins);
});

it("repairs an identity with a flipped bit from its copy, and never uses a damaged one", async () => {
  const { joined } = await joinedRobot("damaged", t0);
  const file = join(dir, "damaged", "identity.json");
  const intact = readFileSync(file);
  for (let index = 0; index < intact.length; index += 97) {
    const damaged = Buffer.from(intact);
    damaged.writeUInt8(damaged.readUInt8(index) ^ (1 << (index % 8)), index);
    writeFileSync(file, damaged);
    expect((await AgentIdentity.open(file, "damaged", silentLogger)).joined, `byte ${index}`).toEqual(joined);
    expect(readFileSync(file).equals(intact)).toBe(true);
  }
  for (const path of [file, `${file}.copy`]) writeFileSync(path, intact.subarray(0, 100));
  await expect(AgentIdentity.open(file, "damaged", silentLogger)).rejects.toThrow(
    /is damaged: restore it, or remove it and join/,
  );
});

it("joins with a new token after a renewal that is under way", async () => {
  const clock = createVirtualClock(t0);
  const identity = await joinedRobot("busy", t0 - certificateLifeMs);
  const token = createOneTimeToken(newer.pin, (bytes) => Buffer.alloc(bytes, 7));
  let requested: (request: unknown) => void = () => {};
  const nextRequest = (): Promise<unknown> =>
    new Promise((resolve) => {
      requested = resolve;
    });
  const membership = new AgentMembership({
    ...{ robotId: "busy", brokerUrl: "mqtt://127.0.0.1:1", labels: {}, token: formatOneTimeToken(token) },
    ...{ clock, log: silentLogger, identity, random: () => 0, serverNow: () => undefined },
    connect: (_, options) => {
      requested(JSON.parse(String(options.password)));
      // Nothing listens at port 1: every exchange fails.
      return mqtt.connect("mqtts://127.0.0.1:1", options);
    },
  });
  try {
    membership.join(() => {}, { again: false });
    const renewal = nextRequest();
    await clock.advance(60_000);
    expect(await renewal).not.toHaveProperty("tokenId");
    const joining = nextRequest();
    membership.join(() => {}, { again: true });
    expect(await joining).toHaveProperty("tokenId", token.id);
  } finally {
    await membership.stop();
  }
});
