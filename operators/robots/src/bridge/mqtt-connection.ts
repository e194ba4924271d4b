import type { Logger } from "@keelson/controller";
import mqtt, { type MqttClient } from "mqtt";

/** Where a broker is and who connects. */
export interface MqttConnectionOptions {
  /** `mqtt://host:port`, also `tcp://`, `mqtts://` and `ssl://`. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly clientId: string;
  /** Subscribed to (QoS 1) on every connect. */
  readonly subscriptions: readonly string[];
  readonly onMessage: (topic: string, payload: Uint8Array) => void;
  /** Subscriptions are in place. Called on every connect. */
  readonly onReady: () => void;
  readonly log: Logger;
}

/** A connection that comes back by itself. */
export interface MqttConnection {
  readonly isConnected: boolean;
  /** Publishes with QoS 1 where there is a connection, else drops: who publishes sends again in `onReady`. */
  publish(topic: string, payload: unknown): void;
  /** Settles with the first connect. Rejects where the broker refuses the credentials. */
  readonly ready: Promise<void>;
  stop(): Promise<void>;
}

/** Publishes that no broker has acknowledged yet; beyond this many, further ones are dropped. */
const maxUnacknowledged = 8192;

/**
 * Connects to a broker: MQTT 3.1.1, clean session, since nothing may depend on what a broker remembers.
 */
export function connectMqtt(options: MqttConnectionOptions): MqttConnection {
  const { url, username, password, clientId, subscriptions, onMessage, onReady, log } = options;
  const client: MqttClient = mqtt.connect(url, {
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
  let unacknowledged = 0;
  let isStopped = false;
  const ready = new Promise<void>((resolve, reject) => {
    client.on("connect", () => {
      // Node leaves Nagle's algorithm on, which holds every second packet back for 44 ms.
      const stream = client.stream as { setNoDelay?: (noDelay: boolean) => void };
      stream.setNoDelay?.(true);
      client.subscribe([...subscriptions], { qos: 1 }, (error, granted) => {
        const refused = granted?.filter((grant) => grant.qos === 128).map((grant) => grant.topic) ?? [];
        if (error || refused.length > 0) {
          if (isStopped) return;
          const why = refused.length > 0 ? `refuses the subscription to ${refused.join(", ")}` : (error?.message ?? "");
          log.error({ broker: url }, `MQTT broker ${why}`);
          reject(new Error(`MQTT broker ${url} ${why}`));
          return;
        }
        log.info({ broker: url }, "connected to the MQTT broker");
        resolve();
        onReady();
      });
    });
    client.on("error", (error) => {
      if (isStopped) return;
      log.warn({ broker: url }, `MQTT: ${error.message}`);
      // CONNACK 4 and 5: trying again would be refused again.
      if ("code" in error && (error.code === 4 || error.code === 5)) {
        reject(
          new Error(
            `MQTT broker ${url} refuses the credentials (${error.message}); see --mqtt-username and --mqtt-password-file`,
          ),
        );
      }
    });
  });
  // A failure after the first connect is logged above; who does not wait for `ready` shall not crash of it.
  ready.catch(() => {});
  client.on("offline", () => {
    if (!isStopped) log.warn({ broker: url }, "no connection to the MQTT broker; trying again every second");
  });
  // Before connecting: with a message that is delivered at once, a later listener would lose it.
  client.on("message", (topic, payload) => onMessage(topic, payload));
  client.connect();
  return {
    get isConnected() {
      return client.connected;
    },
    publish(topic, payload) {
      if (!client.connected || isStopped) return;
      if (unacknowledged >= maxUnacknowledged) {
        log.warn({ topic }, "MQTT publish dropped: too many are not acknowledged yet");
        return;
      }
      unacknowledged++;
      client.publish(topic, JSON.stringify(payload), { qos: 1 }, () => {
        unacknowledged--;
      });
    },
    ready,
    async stop() {
      isStopped = true;
      await client.endAsync(true);
    },
  };
}
