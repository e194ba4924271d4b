import type { Clock, Timer } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import mqtt from "mqtt";
import type { IClientOptions, MqttClient } from "mqtt";
import { agentClientId, topics } from "../protocol/messages.ts";

/** How to reach the broker; mqtt.js's `connect`, replaceable in tests. */
export type ConnectMqtt = (url: string, options: IClientOptions) => MqttClient;

/** Options of {@link connectAgent}. */
export interface AgentConnectionOptions {
  readonly brokerUrl: string;
  readonly robotId: string;
  readonly token: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly connect?: ConnectMqtt;
  /** The broker gets its acknowledgement when this settles. */
  readonly onMessage: (topic: string, payload: Uint8Array) => Promise<void>;
  /** Connected, and subscribed to everything. */
  readonly onReady: () => void;
}

/** An agent's connection, which comes back by itself. */
export interface AgentConnection {
  /** Publishes with QoS 1, or drops it where there is no connection: whoever publishes does it again in `onReady`. */
  publish(topic: string, payload: unknown): void;
  /** Says good-bye (retained `online: false`) where it can, and disconnects. */
  stop(): Promise<void>;
}

const shortestPauseMs = 500;
const longestPauseMs = 30_000;

/** How long a good-bye may take. */
const goodbyeMs = 1000;

/** Publishes without the broker's acknowledgement; further ones are dropped, and said again later. */
const maxUnacknowledged = 1024;

/** The pause before try number `tries` (from 0): anything up to a limit that doubles, so that a fleet does not come back at once. */
export function reconnectPauseMs(tries: number, random: () => number): number {
  const limit = Math.min(longestPauseMs, 2 * shortestPauseMs * 2 ** Math.min(tries, 16));
  return shortestPauseMs + random() * (limit - shortestPauseMs);
}

/** Connects an agent: MQTT 3.1.1, clean session (nothing may depend on what a broker remembers), last will on `online`. */
export function connectAgent(options: AgentConnectionOptions): AgentConnection {
  const { brokerUrl, robotId, token, clock, random, log, onMessage, onReady } = options;
  const client = (options.connect ?? mqtt.connect)(brokerUrl.replace(/^ssl:/, "mqtts:"), {
    clientId: agentClientId(robotId),
    username: robotId,
    password: token,
    protocolVersion: 4,
    clean: true,
    keepalive: 15,
    connectTimeout: 10_000,
    // By our own clock, and with jitter.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    manualConnect: true,
    will: { topic: topics.online(robotId), payload: Buffer.from('{"online":false}'), qos: 1, retain: true },
  });
  let tries = 0;
  let pause: Timer | undefined;
  let isReady = false;
  let isStopped = false;
  /** Of this connection. What was under way on an earlier one is said again, and its acknowledgements count no more. */
  let underWay = new Set<symbol>();

  function send(topic: string, payload: unknown, retain: boolean): Promise<void> {
    const id = Symbol(topic);
    const current = underWay.add(id);
    return new Promise((resolve) => {
      client.publish(topic, JSON.stringify(payload), { qos: 1, retain }, () => {
        current.delete(id);
        resolve();
      });
    });
  }

  // Before connecting: a message that comes with the connection would be lost to a later listener. Here rather than on
  // `message`, because the broker's acknowledgement waits for this callback.
  client.handleMessage = (packet, callback) => {
    const payload = typeof packet.payload === "string" ? Buffer.from(packet.payload) : packet.payload;
    onMessage(packet.topic, payload).then(
      () => callback(),
      (error: unknown) => {
        log.error({ topic: packet.topic, error: String(error) }, "a message from the server could not be handled");
        callback();
      },
    );
  };
  client.on("connect", () => {
    // Node leaves Nagle's algorithm on, which holds every second packet back for 44 ms.
    const stream = client.stream as { setNoDelay?: (noDelay: boolean) => void };
    stream.setNoDelay?.(true);
    const filters = [topics.response(robotId), topics.dispatch(robotId), topics.ownAcks(robotId)];
    client.subscribe(filters, { qos: 1 }, (error, granted) => {
      if (isStopped) return;
      const refused = (granted ?? []).filter((grant) => grant.qos === 128).map((grant) => grant.topic);
      if (error || refused.length > 0) {
        log.error(
          { broker: brokerUrl, refused },
          `the broker refuses the agent's subscriptions: ${error?.message ?? "not allowed"}`,
        );
        client.stream.destroy();
        return;
      }
      tries = 0;
      isReady = true;
      log.info({ broker: brokerUrl }, "connected to the broker");
      void send(topics.online(robotId), { online: true }, true);
      onReady();
    });
  });
  client.on("error", (error) => {
    if (!isStopped) log.warn({ broker: brokerUrl }, `connection to the broker: ${error.message}`);
  });
  client.on("close", () => {
    isReady = false;
    underWay = new Set();
    if (isStopped || pause !== undefined) return;
    const pauseMs = reconnectPauseMs(tries++, random);
    log.warn({ broker: brokerUrl, pauseMs: Math.round(pauseMs) }, "no connection to the broker; trying again after a pause");
    pause = clock.setTimer(pauseMs, () => {
      pause = undefined;
      client.reconnect();
    });
  });
  client.connect();
  return {
    publish(topic, payload) {
      if (!isReady || isStopped) return;
      if (underWay.size >= maxUnacknowledged) {
        log.debug({ topic }, "not published: the broker is slow; it is said again later");
        return;
      }
      void send(topic, payload, false);
    },
    async stop() {
      if (isStopped) return;
      isStopped = true;
      pause?.cancel();
      if (isReady) {
        let timer: Timer | undefined;
        const late = new Promise<void>((resolve) => {
          timer = clock.setTimer(goodbyeMs, resolve);
        });
        await Promise.race([send(topics.online(robotId), { online: false }, true), late]);
        timer?.cancel();
      }
      await client.endAsync(true);
    },
  };
}
