import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { Aedes, type Client, type PublishPacket } from "aedes";
import { joinClientId, type JoinRequest } from "../identity/join-request.ts";
import {
  type AuthenticationPolicy,
  authenticateRobot,
  type ConnectAttempt,
  type RejectionReason,
} from "../identity/robot-authentication.ts";
import { equalsSecret } from "../identity/secret.ts";
import { agentClientId, robotIdPattern, topics } from "../protocol/messages.ts";
import { mayPublishToJoin, mayRetain, maySubscribe, publishRejection } from "./access.ts";
import { JoinGate } from "./join-gate.ts";
import { listen } from "./listen.ts";
import { createPacketGuard } from "./packet-guard.ts";
import { peerCertificateOf } from "./peer-certificate.ts";
import { type BrokerTls, TlsSplitter } from "./tls-splitter.ts";

/** Maximum size of an MQTT packet. */
export const maxPacketBytes = 256 * 1024;

/** Options of {@link startBroker}. */
export interface BrokerOptions {
  /** Default: 127.0.0.1. */
  readonly bindAddress?: string;
  /** 0 picks a free port. Default: 1883. */
  readonly port?: number;
  /** Password of robots that join. */
  readonly joinToken: string;
  /** SHA-256 (hex) of the credential that a robot is bound to. Default: no robot is bound. */
  readonly credentialOf?: (robotId: string) => string | undefined;
  /** The key that a robot is bound to. Default: no robot has one. */
  readonly identityOf?: AuthenticationPolicy["identityOf"];
  /** Loads the certificates of the TLS side. Default: TLS connections are closed. */
  readonly loadTls?: () => Promise<BrokerTls>;
  /** Resolves to why a join request is rejected, or undefined. Default: all are. */
  readonly joinProblem?: (request: JoinRequest) => Promise<string | undefined>;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Whether original agents, which present no credentials to the broker, may connect. Default false. */
  readonly allowsV1Agents?: boolean;
  /** Called when a robot is rejected. */
  readonly onRejected?: (rejection: RobotRejection) => void;
  readonly log: Logger;
  /** Maximum number of concurrent connections. Default: 2000. */
  readonly maxConnections?: number;
  /** Generates the bridge's password. Default: 32 random bytes. */
  readonly random?: () => string;
}

/** A robot that the broker rejected. */
export interface RobotRejection {
  readonly robotId: string;
  readonly reason: RejectionReason | "JoinRejected";
  readonly message: string;
}

/** User name of the bridge and its password, which is generated with every broker. */
export interface BridgeCredentials {
  readonly username: string;
  readonly password: string;
}

/** What `credentialOf` returns for a robot whose credential is revoked. */
export const revokedCredential = "revoked";

const bridgeUsername = "k8s4r-server";

/**
 * The embedded MQTT 3.1.1 broker.
 *
 * **Guarantees**: a robot authenticates as {@link authenticateRobot} says, and only under its own client id; a second connection replaces
 * the first. A robot publishes and subscribes only to its own topics (see `publishRejection`, `maySubscribe`) and is disconnected if it
 * publishes anything else. Only presence (`online`) is retained. TLS 1.3 and plain MQTT share the port; a robot that has joined with a key is
 * admitted over TLS only. An agent that joins can send its join request and receive the answer.
 */
export class Broker implements AsyncDisposable {
  readonly #aedes: Aedes;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #robots = new WeakMap<object, ConnectAttempt>();
  /** Connected robots by id. */
  readonly #connected = new Map<string, Client>();
  readonly #joiners = new WeakMap<object, string>();
  readonly #bridges = new WeakSet<object>();
  readonly #splitter: TlsSplitter;
  readonly #clock: Clock;
  readonly #joins: JoinGate;
  readonly #log: Logger;
  readonly #bindAddress: string;
  #port = 0;
  readonly #policy: AuthenticationPolicy;
  readonly #onRejected: (rejection: RobotRejection) => void;
  readonly #isBridgePassword: (text: Uint8Array) => boolean;
  readonly bridgeCredentials: BridgeCredentials;

  constructor(options: BrokerOptions) {
    const { bindAddress = "127.0.0.1", joinToken, log, maxConnections = 2000 } = options;
    const { random = () => randomBytes(32).toString("base64url") } = options;
    this.#log = log;
    this.#bindAddress = bindAddress;
    const { credentialOf = () => undefined, identityOf = () => undefined } = options;
    const { allowsV1Agents = false, onRejected = () => {} } = options;
    this.#policy = { isJoinToken: equalsSecret(joinToken), credentialOf, identityOf, allowsV1Agents };
    this.#clock = options.clock ?? systemClock;
    this.#joins = new JoinGate(options.joinProblem, log);
    this.#splitter = new TlsSplitter({ loadTls: options.loadTls, log, onConnection: (socket) => this.#serve(socket) });
    this.#onRejected = onRejected;
    this.bridgeCredentials = { username: bridgeUsername, password: random() };
    this.#isBridgePassword = equalsSecret(this.bridgeCredentials.password);
    this.#aedes = new Aedes({
      connectTimeout: 10_000,
      // A client without keep-alive could disappear unnoticed.
      keepaliveLimit: 600,
      maxTopicLevels: 8,
      authenticate: (client, username, password, done) => {
        if (username === undefined || client.id !== joinClientId(username)) {
          done(null, this.#authenticate(client, username, password));
          return;
        }
        void this.#joins.problem(username, password).then((message) => {
          if (message === undefined) this.#joiners.set(client, username);
          else this.#reject(username, { reason: "JoinRejected", message });
          done(null, message === undefined);
        });
      },
      authorizePublish: (client, packet, done) => done(this.#authorizePublish(client, packet)),
      authorizeSubscribe: (client, subscription, done) =>
        done(null, this.#authorizeSubscribe(client, subscription.topic) ? subscription : null),
    });
    // The robot may have been revoked while it connected.
    this.#aedes.on("clientReady", (client) => {
      const id = this.#robots.get(client)?.robotId;
      if (id !== undefined) this.#connected.set(id, client);
      this.#check(client);
    });
    this.#aedes.on("clientDisconnect", (client) => {
      const id = this.#robots.get(client)?.robotId;
      if (id !== undefined && this.#connected.get(id) === client) this.#connected.delete(id);
    });
    this.#aedes.on("clientError", (client, error) =>
      log.debug({ clientId: quote(client.id) }, `MQTT client: ${error.message}`),
    );
    this.#aedes.on("connectionError", (_, error) => log.debug({}, `MQTT connection: ${error.message}`));
    // Without noDelay, an acknowledgement waits for the kernel's delayed ACK: 44 ms instead of 0.1.
    this.#server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket));
    this.#server.maxConnections = maxConnections;
  }

  /** URL of the broker, such as `mqtt://127.0.0.1:1883`. */
  get url(): string {
    return `mqtt://${this.#bindAddress.includes(":") ? `[${this.#bindAddress}]` : this.#bindAddress}:${this.#port}`;
  }

  /** Closes the live connection of a robot if it would be rejected now. */
  recheck(robotId: string): void {
    const client = this.#connected.get(robotId);
    if (client !== undefined) this.#check(client);
  }

  /** Starts to listen. **Errors**: see {@link listen}. */
  async listen(port: number): Promise<void> {
    await this.#aedes.listen();
    try {
      await listen(this.#server, port, this.#bindAddress);
      const address = this.#server.address();
      this.#port = typeof address === "object" && address !== null ? address.port : port;
    } catch (error) {
      await this.#closeAedes();
      throw error;
    }
  }

  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, "close");
    this.#server.close();
    await this.#closeAedes();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #closeAedes(): Promise<void> {
    await new Promise<void>((resolve) => this.#aedes.close(resolve));
  }

  #onConnection(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    this.#splitter.accept(socket);
  }

  #serve(socket: Socket): void {
    this.#aedes.handle(socket);
    const guard = createPacketGuard(maxPacketBytes);
    // The broker reads when the socket is readable. Each chunk passes the guard before the broker's parser sees it.
    socket.on("data", (chunk: Buffer) => {
      if (!guard.accept(chunk)) socket.destroy(new Error(`a packet is larger than ${maxPacketBytes} bytes`));
    });
  }

  #authenticate(client: Client, username: string | undefined, password: Uint8Array | undefined): boolean {
    if (username === bridgeUsername && password !== undefined && this.#isBridgePassword(password)) {
      this.#bridges.add(client);
      return true;
    }
    // An original agent has no user name. Its client id names the robot.
    const robotId = username ?? client.id.replace(agentClientId(""), "");
    if (!robotIdPattern.test(robotId) || robotId === bridgeUsername || client.id !== agentClientId(robotId)) {
      const names = { clientId: quote(client.id), username: quote(username) };
      this.#log.warn(names, "MQTT client rejected: the user name must be a robot id, and the client id k8s4r-agent-<robot id>");
      return false;
    }
    const certificate = peerCertificateOf(client.conn, this.#splitter.authority, this.#clock.now());
    const attempt: ConnectAttempt = {
      robotId,
      ...(username === undefined ? {} : { password: password ?? Buffer.alloc(0) }),
      ...(certificate === undefined || certificate.robotId !== robotId ? {} : { certificate }),
    };
    const result = authenticateRobot(attempt, this.#policy);
    if (result.kind === "accepted") {
      this.#robots.set(client, attempt);
      return true;
    }
    return this.#reject(robotId, result);
  }

  #reject(robotId: string, { reason, message }: Omit<RobotRejection, "robotId">): false {
    this.#log.warn({ robot: robotId, reason }, `robot rejected: ${message}`);
    this.#onRejected({ robotId, reason, message });
    return false;
  }

  #check(client: Client): void {
    const attempt = this.#robots.get(client);
    if (attempt === undefined) return;
    const { robotId, certificate } = attempt;
    const hasKey = certificate !== undefined || this.#policy.identityOf(robotId) !== undefined;
    const isRevoked = hasKey
      ? authenticateRobot({ ...attempt }, this.#policy).kind === "rejected"
      : this.#policy.credentialOf(robotId) === revokedCredential;
    if (!isRevoked) return;
    this.#log.info({ robot: robotId }, "robot disconnected: key or credential revoked or expired");
    client.close();
  }

  #authorizePublish(client: Client | null, packet: PublishPacket): Error | null {
    if (client === null || this.#bridges.has(client)) return null;
    const joiner = this.#joiners.get(client);
    if (joiner !== undefined && mayPublishToJoin(joiner, packet)) return null;
    const id = this.#robots.get(client)?.robotId;
    const payload = typeof packet.payload === "string" ? Buffer.from(packet.payload) : packet.payload;
    const { topic, qos, retain } = packet;
    const rejection = id === undefined ? "not authenticated" : publishRejection(id, { topic, qos, retain, payload });
    if (rejection !== undefined) {
      this.#log.warn({ robot: id, topic: quote(topic) }, `MQTT publish rejected: ${quote(rejection)}`);
      return new Error(rejection);
    }
    if (retain && !mayRetain(topic)) packet.retain = false;
    return null;
  }

  #authorizeSubscribe(client: Client | null, filter: string): boolean {
    if (client === null) return false;
    const joiner = this.#joiners.get(client);
    if (joiner !== undefined && filter === topics.joinAnswer(joiner)) return true;
    const id = this.#robots.get(client)?.robotId;
    if (this.#bridges.has(client) || (id !== undefined && maySubscribe(id, filter))) return true;
    this.#log.warn({ robot: id, topic: quote(filter) }, "MQTT subscription rejected");
    return false;
  }
}

/** Creates a {@link Broker} and starts to listen. **Errors**: see {@link listen}. */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const broker = new Broker(options);
  await broker.listen(options.port ?? 1883);
  return broker;
}

/** Quotes and shortens untrusted text for the log. */
function quote(text: string | undefined): string {
  return JSON.stringify(text ?? "").slice(0, 120);
}
