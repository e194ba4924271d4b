import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { Logger } from "@keelson/controller";
import { Aedes } from "aedes";
import { agentClientId, robotIdPattern } from "../protocol/messages.ts";
import { mayRetain, maySubscribe, publishRefusal } from "./access.ts";
import { createPacketGuard } from "./packet-guard.ts";
import { equalsSecret } from "../identity/secret.ts";

/** The largest packet that the broker takes and the bridge sends. */
export const maxPacketBytes = 256 * 1024;

/** Options of {@link startBroker}. */
export interface BrokerOptions {
  /** Default: 127.0.0.1. */
  readonly bindAddress?: string;
  /** 0 picks a free one. Default: 1883. */
  readonly port?: number;
  /** What every robot has to know. */
  readonly joinToken: string;
  readonly log: Logger;
  /** Most connections at once. Default: 2000. */
  readonly maxConnections?: number;
}

/** A running broker. */
export interface Broker {
  /** `mqtt://127.0.0.1:1883`. */
  readonly url: string;
  /** What the bridge connects with: made anew with every broker, known to nobody else. */
  readonly bridgeCredentials: { readonly username: string; readonly password: string };
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const bridgeUsername = "k8s4r-server";

/**
 * Starts the embedded MQTT 3.1.1 broker.
 *
 * **Guarantees**: nobody connects without the join token; a robot connects only under its own client id (a second connection
 * takes the place of the first); it publishes and subscribes only what is its own (see `publishRefusal`, `maySubscribe`).
 * A client that tries to publish anything else is disconnected. Only presence (`online`) is retained.
 *
 * **Errors**: rejects naming the address and the flag where it cannot listen.
 */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const { bindAddress = "127.0.0.1", port = 1883, joinToken, log, maxConnections = 2000 } = options;
  const isJoinToken = equalsSecret(joinToken);
  const password = randomBytes(32).toString("base64url");
  const isBridgePassword = equalsSecret(password);
  const robots = new WeakMap<object, string>();
  const bridges = new WeakSet<object>();

  const aedes = await Aedes.createBroker({
    connectTimeout: 10_000,
    // A client without keep-alive could be gone for good and nobody would notice.
    keepaliveLimit: 600,
    maxTopicLevels: 8,
    authenticate(client, username, given, done) {
      const text = given ?? Buffer.alloc(0);
      if (username === bridgeUsername && isBridgePassword(text)) {
        bridges.add(client);
        done(null, true);
      } else if (
        username !== undefined &&
        robotIdPattern.test(username) &&
        username !== bridgeUsername &&
        client.id === agentClientId(username) &&
        isJoinToken(text)
      ) {
        robots.set(client, username);
        done(null, true);
      } else {
        log.warn(
          { clientId: shorten(client.id), username: shorten(username) },
          "MQTT client refused: wrong name, token or client id",
        );
        done(null, false);
      }
    },
    authorizePublish(client, packet, done) {
      if (client === null || bridges.has(client)) return done(null);
      const id = robots.get(client);
      const payload = typeof packet.payload === "string" ? Buffer.from(packet.payload) : packet.payload;
      const refusal =
        id === undefined
          ? "not authenticated"
          : publishRefusal(id, { topic: packet.topic, qos: packet.qos, retain: packet.retain, payload });
      if (refusal !== undefined) {
        log.warn({ robot: id, topic: shorten(packet.topic) }, `MQTT publish refused: ${shorten(refusal)}`);
        return done(new Error(refusal));
      }
      if (packet.retain && !mayRetain(packet.topic)) packet.retain = false;
      done(null);
    },
    authorizeSubscribe(client, subscription, done) {
      const id = robots.get(client);
      if (bridges.has(client) || (id !== undefined && maySubscribe(id, subscription.topic))) return done(null, subscription);
      log.warn({ robot: id, topic: shorten(subscription.topic) }, "MQTT subscription refused");
      done(null, null);
    },
  });
  aedes.on("clientError", (client, error) => log.debug({ clientId: shorten(client.id) }, `MQTT client: ${error.message}`));
  aedes.on("connectionError", (_, error) => log.debug({}, `MQTT connection: ${error.message}`));

  const sockets = new Set<Socket>();
  // Without noDelay an acknowledgement waits for the kernel's delayed ACK: 44 ms instead of 0.1.
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    aedes.handle(socket);
    const guard = createPacketGuard(maxPacketBytes);
    // The broker reads when the socket is readable; each chunk comes by here before its parser gets it.
    socket.on("data", (chunk: Buffer) => {
      if (!guard.accept(chunk)) socket.destroy(new Error(`a packet is larger than ${maxPacketBytes} bytes`));
    });
  });
  server.maxConnections = maxConnections;
  try {
    await listen(server, port, bindAddress);
  } catch (error) {
    await new Promise<void>((resolve) => aedes.close(resolve));
    throw error;
  }
  const address = server.address();
  const boundPort = typeof address === "object" && address !== null ? address.port : port;
  const host = bindAddress.includes(":") ? `[${bindAddress}]` : bindAddress;

  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    await new Promise<void>((resolve) => aedes.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    url: `mqtt://${host}:${boundPort}`,
    bridgeCredentials: { username: bridgeUsername, password },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function listen(server: Server, port: number, bindAddress: string): Promise<void> {
  try {
    server.listen(port, bindAddress);
    await once(server, "listening");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why =
      code === "EADDRINUSE"
        ? `port ${port} on ${bindAddress} is in use; choose another with --mqtt-port (0 picks a free one)`
        : code === "EADDRNOTAVAIL"
          ? `${bindAddress} is no address of this machine; choose one with --mqtt-bind-address`
          : code === "EACCES"
            ? `port ${port} on ${bindAddress} may not be opened by this user; choose one above 1023 with --mqtt-port`
            : `cannot listen on ${bindAddress} port ${port}: ${(error as Error).message}`;
    throw new Error(`MQTT broker: ${why}`, { cause: error });
  }
}

/** Text of strangers for the log. */
function shorten(text: string | undefined): string {
  return JSON.stringify(text ?? "").slice(0, 120);
}
