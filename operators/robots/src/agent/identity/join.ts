import { randomBytes } from "node:crypto";
import { isJsonObject } from "@keelson/api-machinery";
import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { MqttClient } from "mqtt";
import {
  externalJoinUser,
  externalJoinUserOf,
  type JoinAnswer,
  joinClientId,
  type JoinRequest,
  signJoinRequest,
} from "../../identity/join-request.ts";
import { type OneTimeToken, publicKeyText, tokenKey } from "../../identity/one-time-token.ts";
import { connectMqtt } from "../../protocol/connect-mqtt.ts";
import { topics } from "../../protocol/messages.ts";
import { RobotsError } from "../../robots-error.ts";
import type { AgentIdentity } from "./agent-identity.ts";
import { type ConnectMqtt, reconnectPauseMs } from "../agent-connection.ts";

/** Time for one attempt. */
const attemptTimeoutMs = 20_000;

/** Options of {@link joinServer} and {@link renewCertificate}. */
export interface JoinOptions {
  readonly brokerUrl: string;
  /** Whether the broker is an external one, which cannot check join requests itself. */
  readonly isExternal: boolean;
  readonly robotId: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly identity: AgentIdentity;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly signal: AbortSignal;
  readonly connect?: ConnectMqtt;
}

/** Joins with a token. Tries again until it succeeds. **Errors**: rejects if `signal` is aborted. */
export async function joinServer(token: OneTimeToken, options: JoinOptions): Promise<void> {
  const { brokerUrl, robotId, labels, identity, clock, log, random, signal } = options;
  for (let tries = 0; ; tries++) {
    try {
      const key = await identity.keyFor(token.id);
      const nonce = randomBytes(12).toString("base64url");
      const request = { robotId, tokenId: token.id, publicKey: publicKeyText(key), nonce, labels, trusts: [token.pin] };
      await identity.accept(await exchange(signJoinRequest(request, tokenKey(token)), options), token.pin);
      log.info({ robot: robotId, token: token.id }, "joined: this robot has a certificate");
      return;
    } catch (error) {
      signal.throwIfAborted();
      const pauseMs = reconnectPauseMs(tries, random);
      const text = { broker: brokerUrl, pauseMs: Math.round(pauseMs) };
      log.warn(text, `could not join: ${error instanceof Error ? error.message : String(error)}; retrying`);
      await sleep(clock, pauseMs, signal);
    }
  }
}

/** Renews the certificate of the robot's key. **Errors**: rejects if the server does not respond or rejects the request. */
export async function renewCertificate(options: JoinOptions): Promise<void> {
  const { robotId, identity, log } = options;
  const key = identity.ownKey;
  if (key === undefined) throw new RobotsError("JoinFailed", "this robot has not joined");
  const nonce = randomBytes(12).toString("base64url");
  const { pins } = identity;
  const request = signJoinRequest({ robotId, publicKey: publicKeyText(key), nonce, labels: {}, trusts: pins }, key);
  await identity.accept(await exchange(request, options), undefined);
  log.info({ robot: robotId }, "renewed the certificate of this robot");
}

interface JoinLogin {
  readonly username: string;
  readonly password: string;
}

/** CONNACK codes "bad user name or password" and "not authorized" (MQTT 3.1.1 section 3.2.2.3). */
const badCredentials: readonly unknown[] = [4, 5];

/** Sends a request and waits for the answer. An external broker may know some of the authorities that this robot trusts. */
async function exchange(request: JoinRequest, options: JoinOptions): Promise<JoinAnswer> {
  const { robotId, isExternal } = options;
  if (!isExternal) return await exchangeAs({ username: robotId, password: JSON.stringify(request) }, request, options);
  const { trusts = [] } = request;
  const [first, ...others] = [
    ...trusts.map((pin) => ({ username: externalJoinUser, password: pin })),
    ...trusts.map((pin) => ({ username: externalJoinUserOf(pin), password: pin })),
  ];
  if (first === undefined) throw new RobotsError("JoinFailed", "this robot trusts no certificate authority");
  for (let login = first; ; ) {
    try {
      return await exchangeAs(login, request, options);
    } catch (error) {
      const { cause } = error instanceof RobotsError ? error : {};
      const next = others.shift();
      const isRejected = cause instanceof Error && "code" in cause && badCredentials.includes(cause.code);
      if (!isRejected || next === undefined) throw error;
      login = next;
    }
  }
}

/** Sends a request over its own connection and waits for the answer. */
async function exchangeAs(login: JoinLogin, request: JoinRequest, options: JoinOptions): Promise<JoinAnswer> {
  const { brokerUrl, robotId, clock, signal } = options;
  const mqttOptions = {
    clientId: joinClientId(robotId),
    ...login,
    protocolVersion: 4 as const,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: 10_000,
    manualConnect: true,
    // Passed on to `tls.connect`; mqtt.js does not declare it.
    minVersion: "TLSv1.3",
    // The request and its answer contain no secret, and the answer is checked against the pin of the token.
    rejectUnauthorized: false,
  };
  const client = (options.connect ?? connectMqtt)(brokerUrl.replace(/^(tcp|mqtt|ssl):/, "mqtts:"), mqttOptions);
  const timeout = new AbortController();
  const expired = sleep(clock, attemptTimeoutMs, AbortSignal.any([timeout.signal, signal])).then(() => {
    throw new RobotsError("JoinFailed", "no response from the server");
  });
  try {
    return await Promise.race([answerTo(request, client), expired]);
  } finally {
    timeout.abort();
    expired.catch(() => {});
    await client.endAsync(true);
  }
}

function answerTo(request: JoinRequest, client: MqttClient): Promise<JoinAnswer> {
  const { robotId } = request;
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(new RobotsError("JoinFailed", error.message, { cause: error }));
    client.on("error", fail);
    client.on("close", () => reject(new RobotsError("JoinFailed", "the broker closed the connection")));
    client.on("message", (_, payload) => {
      const answer = readAnswer(payload);
      if (answer?.nonce === request.nonce) resolve(answer);
    });
    client.on("connect", () => {
      client.subscribe(topics.joinAnswer(robotId), { qos: 1 }, (error) => {
        if (error) fail(error);
        else client.publish(topics.join(robotId), JSON.stringify(request), { qos: 1 });
      });
    });
    client.connect();
  });
}

function readAnswer(payload: Uint8Array): JoinAnswer | undefined {
  try {
    const answer: unknown = JSON.parse(Buffer.from(payload).toString("utf8"));
    if (!isJsonObject(answer) || typeof answer.nonce !== "string") return undefined;
    if (typeof answer.rejected === "string") return { nonce: answer.nonce, rejected: answer.rejected.slice(0, 300) };
    const isComplete =
      typeof answer.certificate === "string" && typeof answer.authority === "string" && isJsonObject(answer.trust);
    return isComplete ? (answer as unknown as JoinAnswer) : undefined;
  } catch {
    return undefined;
  }
}
