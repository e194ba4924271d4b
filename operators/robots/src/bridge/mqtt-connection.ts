import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { IClientOptions, MqttClient } from "mqtt";
import { connectMqtt } from "../protocol/connect-mqtt.ts";
import { RobotsError } from "../robots-error.ts";

/** Options of an {@link MqttConnection}. */
export interface MqttConnectionOptions {
  /** `mqtt://host:port`, also `tcp://`, `mqtts://` and `ssl://`. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  /** Certificate, key and authorities of the next TLS connection. Default: none, and the system's authorities. */
  readonly tls?: () => Pick<IClientOptions, "cert" | "key" | "ca">;
  readonly clientId: string;
  /** Topic filters to subscribe to (QoS 1) on every connect. */
  readonly subscriptions: readonly string[];
  readonly onMessage: (topic: string, payload: Uint8Array) => void;
  /** Called on every connect, after the subscriptions are in place. */
  readonly onReady: () => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A connection that ends sooner was not lost by chance. */
const shortConnectionMs = 5_000;

/** Number of short connections in a row after which another operator is suspected. */
const suspiciousConnections = 3;

/** Maximum number of publishes that the broker has not acknowledged. Further ones are dropped. */
const maxUnacknowledged = 8192;

/** CONNACK codes "bad user name or password" and "not authorized" (MQTT 3.1.1 section 3.2.2.3). */
const badCredentials: readonly unknown[] = [4, 5];

/**
 * A connection to a broker that reconnects every second: MQTT 3.1.1 with a clean session, since nothing may depend on what a broker
 * remembers.
 */
export class MqttConnection {
  readonly #options: MqttConnectionOptions;
  readonly #client: MqttClient;
  #unacknowledged = 0;
  #isStopped = false;
  #isReady = false;
  #readyAt = 0;
  /** Connections in a row that ended soon after they began. */
  #shortConnections = 0;
  /** Resolves with the first connect. Rejects if the broker rejects the credentials or a subscription. */
  readonly ready: Promise<void>;

  constructor(options: MqttConnectionOptions) {
    const { url, username, password, clientId, tls } = options;
    this.#options = options;
    this.#client = connectMqtt(url, {
      ...tls?.(),
      clientId,
      clean: true,
      protocolVersion: 4,
      keepalive: 30,
      reconnectPeriod: 1000,
      connectTimeout: 10_000,
      resubscribe: false,
      queueQoSZero: false,
      manualConnect: true,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
    });
    this.ready = new Promise((resolve, reject) => {
      this.#client.on("connect", () => this.#onConnect(resolve, reject));
      this.#client.on("error", (error) => this.#onError(error, reject));
    });
    // Failures are logged. A caller that does not wait for `ready` must not crash on them.
    this.ready.catch(() => {});
    this.#client.on("close", () => {
      if (this.#isReady) {
        const isShort = options.clock.monotonic() - this.#readyAt < shortConnectionMs;
        this.#shortConnections = isShort ? this.#shortConnections + 1 : 0;
      }
      this.#isReady = false;
      Object.assign(this.#client.options, tls?.());
    });
    this.#client.on("offline", () => {
      if (this.#isStopped) return;
      const isSuspicious = this.#shortConnections >= suspiciousConnections;
      const hint = isSuspicious ? "; check whether another operator, such as a second keelson up, uses the same broker" : "";
      options.log.warn({ broker: url }, `lost the connection to the MQTT broker; retrying every second${hint}`);
    });
    // Added before connecting: a later listener would miss a message that arrives with the connection.
    this.#client.on("message", (topic, payload) => options.onMessage(topic, payload));
    this.#client.connect();
  }

  /** Whether messages arrive: it is connected and subscribed. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Publishes with QoS 1. Drops the message if there is no connection: the caller publishes again in `onReady`. */
  publish(topic: string, payload: object): void {
    this.publishText(topic, JSON.stringify(payload));
  }

  /** Like {@link publish}, for a payload that is serialized already. */
  publishText(topic: string, payload: string): void {
    if (!this.#client.connected || this.#isStopped) return;
    if (this.#unacknowledged >= maxUnacknowledged) {
      this.#options.log.warn({ topic }, "MQTT publish dropped: too many unacknowledged publishes");
      return;
    }
    this.#unacknowledged++;
    this.#client.publish(topic, payload, { qos: 1 }, () => {
      this.#unacknowledged--;
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#client.endAsync(true);
  }

  #onConnect(resolve: () => void, reject: (error: Error) => void): void {
    const { url, subscriptions, onReady, log } = this.#options;
    // Node enables Nagle's algorithm by default, which delays every second packet by 44 ms.
    const stream = this.#client.stream as { setNoDelay?: (noDelay: boolean) => void };
    stream.setNoDelay?.(true);
    this.#client.subscribe([...subscriptions], { qos: 1 }, (error, granted) => {
      const rejected = granted?.filter((grant) => grant.qos === 128).map((grant) => grant.topic) ?? [];
      if (error || rejected.length > 0) {
        if (this.#isStopped) return;
        const why = rejected.length > 0 ? `rejected the subscription to ${rejected.join(", ")}` : (error?.message ?? "");
        log.error({ broker: url }, `MQTT broker ${why}`);
        reject(new RobotsError("BrokerRejected", `MQTT broker ${url} ${why}`, { cause: error }));
        return;
      }
      log.info({ broker: url }, "connected to the MQTT broker");
      resolve();
      this.#isReady = true;
      this.#readyAt = this.#options.clock.monotonic();
      onReady();
    });
  }

  #onError(error: Error, reject: (error: Error) => void): void {
    const { url, log } = this.#options;
    if (this.#isStopped) return;
    log.warn({ broker: url }, `MQTT: ${error.message}`);
    if (!("code" in error) || !badCredentials.includes(error.code)) return;
    const message = `MQTT broker ${url} rejected the credentials (${error.message}); check --mqtt-username and --mqtt-password-file`;
    reject(new RobotsError("BrokerRejected", message, { cause: error }));
  }
}
