import { type Clock, sleep, type Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { IClientOptions, ISubscriptionGrant, MqttClient } from "mqtt";
import { connectMqtt } from "../protocol/connect-mqtt.ts";
import { agentClientId, topics } from "../protocol/messages.ts";

/** Connects to a broker: mqtt.js's `connect`, replaceable in tests. */
export type ConnectMqtt = (url: string, options: IClientOptions) => MqttClient;

/** How an agent authenticates: with a password, or over TLS with its certificate. */
export type AgentLogin =
  | { readonly password: string }
  | { readonly certificate: string; readonly key: string; readonly authority: string };

/** Options of an {@link AgentConnection}. */
export interface AgentConnectionOptions {
  readonly brokerUrl: string;
  readonly robotId: string;
  /** How the next connection attempt authenticates. */
  readonly login: () => AgentLogin;
  /** Called when the broker has rejected the password or certificate, or its own certificate cannot be verified. */
  readonly onRejected: () => void;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly connect?: ConnectMqtt;
  /** Handles a message. The broker gets its acknowledgement when this settles. */
  readonly onMessage: (topic: string, payload: Uint8Array) => Promise<void>;
  /** Called on every connect, after the subscriptions are in place. */
  readonly onReady: () => void;
}

/** CONNACK codes "bad user name or password" and "not authorized" (MQTT 3.1.1 section 3.2.2.3). */
const badCredentials: readonly unknown[] = [4, 5];

const minPauseMs = 500;
const maxPauseMs = 30_000;

/** A connection that lasts this long resets the backoff. */
const stableAfterMs = 10_000;

/** Maximum time for publishing `online: false` before disconnecting. */
const goodbyeTimeoutMs = 1000;

/** Maximum number of publishes that the broker has not acknowledged. Further ones are dropped and repeated later. */
const maxUnacknowledged = 1024;

/** Whether a broker rejected the agent: by CONNACK, or with a TLS alert about its certificate. */
function isRejection(code: unknown): boolean {
  return badCredentials.includes(code) || (typeof code === "string" && /_ALERT_CERTIFICATE_|_ALERT_UNKNOWN_CA/.test(code));
}

/** Whether none of the authorities that the robot trusts has signed the broker's certificate: the robot may have missed their replacement. */
function isUntrustedBroker(code: unknown): boolean {
  return typeof code === "string" && /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED_CERT|DEPTH_ZERO|CERT_SIGNATURE)/.test(code);
}

/** With a certificate, the connection uses TLS, whatever scheme the URL has. The embedded broker has both on the same port. */
function urlFor(brokerUrl: string, login: AgentLogin): string {
  return brokerUrl.replace("password" in login ? /^ssl:/ : /^(tcp|mqtt|ssl):/, "mqtts:");
}

function loginOptions(login: AgentLogin): Partial<IClientOptions> {
  if ("password" in login) return { password: login.password };
  const { certificate, key, authority } = login;
  const options = {
    cert: certificate,
    key,
    ca: authority,
    // Passed on to `tls.connect`; mqtt.js does not declare it.
    minVersion: "TLSv1.3",
    // The authority signs one kind of server certificate, for brokers; which address a robot reaches the broker at does not matter.
    checkServerIdentity: () => undefined,
  };
  return options;
}

/**
 * Pause before reconnect attempt number `tries` (from 0): random up to a limit that doubles, so that a fleet does not reconnect at the
 * same time.
 */
export function reconnectPauseMs(tries: number, random: () => number): number {
  const limit = Math.min(maxPauseMs, 2 * minPauseMs * 2 ** Math.min(tries, 16));
  return minPauseMs + random() * (limit - minPauseMs);
}

/**
 * An agent's connection, which reconnects automatically: MQTT 3.1.1, clean session (nothing may depend on what a broker remembers),
 * last will on `online`.
 */
export class AgentConnection {
  readonly #options: AgentConnectionOptions;
  readonly #client: MqttClient;
  #tries = 0;
  #pause: Timer | undefined;
  #isReady = false;
  #readyAt = 0;
  #isStopped = false;
  /** Unacknowledged publishes of the current connection. Those of earlier connections are repeated and no longer count. */
  #unacknowledged = new Set<symbol>();

  constructor(options: AgentConnectionOptions) {
    const { brokerUrl, robotId, log } = options;
    this.#options = options;
    const login = options.login();
    this.#client = (options.connect ?? connectMqtt)(urlFor(brokerUrl, login), {
      clientId: agentClientId(robotId),
      username: robotId,
      ...loginOptions(login),
      protocolVersion: 4,
      clean: true,
      keepalive: 15,
      connectTimeout: 10_000,
      // Reconnects use the injected clock, with jitter.
      reconnectPeriod: 0,
      resubscribe: false,
      queueQoSZero: false,
      manualConnect: true,
      will: { topic: topics.online(robotId), payload: Buffer.from('{"online":false}'), qos: 1, retain: true },
    });
    // Set before connecting: a later listener would miss a message that arrives with the connection. The `message` event would not do,
    // because the broker's acknowledgement waits for this callback.
    this.#client.handleMessage = (packet, callback) => {
      const payload = typeof packet.payload === "string" ? Buffer.from(packet.payload) : packet.payload;
      options.onMessage(packet.topic, payload).then(
        () => callback(),
        (error: unknown) => {
          log.error({ topic: packet.topic, error: String(error) }, "could not handle a message from the server");
          callback();
        },
      );
    };
    this.#client.on("connect", () => this.#onConnect());
    this.#client.on("error", (error) => this.#onError(error));
    this.#client.on("close", () => this.#onClose());
    this.#client.connect();
  }

  /** Publishes with QoS 1. Drops the message if there is no connection: the caller publishes again in `onReady`. */
  publish(topic: string, payload: unknown): void {
    if (!this.#isReady || this.#isStopped) return;
    if (this.#unacknowledged.size >= maxUnacknowledged) {
      this.#options.log.debug({ topic }, "publish postponed: too many unacknowledged publishes");
      return;
    }
    void this.#send(topic, payload, false);
  }

  /** Publishes `online: false` (retained) if it can, and disconnects. */
  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    this.#pause?.cancel();
    if (this.#isReady) {
      const cancel = new AbortController();
      const timeout = sleep(this.#options.clock, goodbyeTimeoutMs, cancel.signal).catch(() => {});
      await Promise.race([this.#send(topics.online(this.#options.robotId), { online: false }, true), timeout]);
      cancel.abort();
    }
    await this.#client.endAsync(true);
  }

  #send(topic: string, payload: unknown, retain: boolean): Promise<void> {
    const id = Symbol(topic);
    const current = this.#unacknowledged.add(id);
    return new Promise((resolve) => {
      this.#client.publish(topic, JSON.stringify(payload), { qos: 1, retain }, () => {
        current.delete(id);
        resolve();
      });
    });
  }

  #onConnect(): void {
    const { robotId } = this.#options;
    // Node enables Nagle's algorithm by default, which delays every second packet by 44 ms.
    const stream = this.#client.stream as { setNoDelay?: (noDelay: boolean) => void };
    stream.setNoDelay?.(true);
    const filters = [topics.response(robotId), topics.dispatch(robotId), topics.ownAcks(robotId), topics.leaseAnswer(robotId)];
    // Brokers that were configured by an earlier version reject them.
    for (const filter of [topics.signals(robotId), topics.exec(robotId)]) this.#client.subscribe(filter, { qos: 1 }, () => {});
    this.#client.subscribe(filters, { qos: 1 }, (error, granted) => this.#onSubscribed(error, granted ?? []));
  }

  #onSubscribed(error: Error | null, granted: readonly ISubscriptionGrant[]): void {
    const { brokerUrl, robotId, log, onReady } = this.#options;
    if (this.#isStopped) return;
    const rejected = granted.filter((grant) => grant.qos === 128).map((grant) => grant.topic);
    if (error || rejected.length > 0) {
      log.error({ broker: brokerUrl, rejected }, `the broker rejected the subscriptions: ${error?.message ?? "not allowed"}`);
      this.#client.stream.destroy();
      return;
    }
    this.#readyAt = this.#options.clock.monotonic();
    this.#isReady = true;
    log.info({ broker: brokerUrl }, "connected to the broker");
    void this.#send(topics.online(robotId), { online: true }, true);
    onReady();
  }

  #onError(error: Error): void {
    const { brokerUrl, robotId, log, onRejected } = this.#options;
    if (this.#isStopped) return;
    const code = "code" in error ? error.code : undefined;
    if (isUntrustedBroker(code)) {
      const hint =
        "the robot does not trust the broker's certificate authority; if it was replaced, revoke the robot and join again with a new token";
      log.error({ broker: brokerUrl, robot: robotId }, `connection to the broker: ${error.message}; ${hint}`);
      onRejected();
      return;
    }
    if (!isRejection(code)) {
      log.warn({ broker: brokerUrl }, `connection to the broker: ${error.message}`);
      return;
    }
    const hint = `check the join token (--token-file), and whether ${robotId} is bound to another agent or revoked (see the events of the Robot)`;
    log.error({ broker: brokerUrl, robot: robotId }, `the broker rejected the agent (${error.message}); ${hint}`);
    onRejected();
  }

  #onClose(): void {
    const { brokerUrl, clock, random, log } = this.#options;
    // A connection that does not last, for example because another agent has the same id, does not reset the backoff.
    if (this.#isReady && clock.monotonic() - this.#readyAt >= stableAfterMs) this.#tries = 0;
    this.#isReady = false;
    this.#unacknowledged = new Set();
    if (this.#isStopped || this.#pause !== undefined) return;
    const pauseMs = reconnectPauseMs(this.#tries++, random);
    log.warn({ broker: brokerUrl, pauseMs: Math.round(pauseMs) }, "no connection to the broker; retrying");
    this.#pause = clock.setTimer(pauseMs, () => {
      this.#pause = undefined;
      Object.assign(this.#client.options, loginOptions(this.#options.login()));
      this.#client.reconnect();
    });
  }
}
