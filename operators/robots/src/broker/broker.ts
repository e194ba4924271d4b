import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { Aedes, Client, PublishPacket } from "aedes";
import { joinClientId } from "../identity/join-request.ts";
import { type AuthenticationPolicy, authenticateRobot, type ConnectAttempt } from "../identity/robot-authentication.ts";
import { equalsSecret } from "../identity/secret.ts";
import { agentClientId, robotIdPattern, topics } from "../protocol/messages.ts";
import {
  type BridgeCredentials,
  type BrokerOptions,
  maxPacketBytes,
  maxUnreadBytes,
  revokedCredential,
  type RobotRejection,
} from "./broker-options.ts";
import { Connections } from "./connections.ts";
import { createAedes } from "./create-aedes.ts";
import { mayPublishToJoin, mayRetain, maySubscribe, publishRejection } from "./access.ts";
import { JoinGate } from "./join-gate.ts";
import { KeyedRates, packetLimit, packetsPerTopic, publishLimit } from "./keyed-rates.ts";
import { LimitedLog, quote } from "./limited-log.ts";
import { listen } from "./listen.ts";
import { guardConnection } from "./packet-guard.ts";
import { type PeerCertificate, peerCertificateOf } from "./peer-certificate.ts";
import { TlsSplitter } from "./tls-splitter.ts";

const bridgeUsername = "k8s4r-server";

/**
 * The embedded MQTT 3.1.1 broker.
 *
 * **Guarantees**: a robot authenticates as {@link authenticateRobot} says, and only under its own client id; a second connection replaces
 * the first. A robot publishes and subscribes only to its own topics (see `publishRejection`, `maySubscribe`) and is disconnected if it
 * publishes anything else, or too much (see {@link publishLimit}). Only presence (`online`) is retained. TLS 1.3 and plain MQTT share the port; a robot that has joined with a key is
 * admitted over TLS only. An agent that joins can send its join request and receive the answer.
 */
export class Broker implements AsyncDisposable {
  readonly #aedes: Aedes;
  readonly #server: Server;
  readonly #connections: Connections;
  readonly #requiresTls: boolean;
  readonly #robots = new WeakMap<object, ConnectAttempt>();
  /** Connected robots by id. */
  readonly #connected = new Map<string, Client>();
  readonly #joiners = new WeakMap<object, string>();
  readonly #bridges = new WeakSet<object>();
  readonly #splitter: TlsSplitter;
  readonly #clock: Clock;
  readonly #joins: JoinGate;
  readonly #rates: KeyedRates;
  readonly #packetRates: KeyedRates;
  readonly #log: Logger;
  readonly #untrusted: LimitedLog;
  readonly #bindAddress: string;
  #port = 0;
  readonly #policy: AuthenticationPolicy;
  readonly #onRejected: (rejection: RobotRejection) => void;
  readonly #isBridgePassword: (text: Uint8Array) => boolean;
  readonly bridgeCredentials: BridgeCredentials;

  constructor(options: BrokerOptions) {
    const { bindAddress = "127.0.0.1", joinToken, log, maxConnections = 2000, requiresTls = false } = options;
    this.#log = log;
    this.#bindAddress = bindAddress;
    const { credentialOf = () => undefined, identityOf = () => undefined, allowsV1Agents = false } = options;
    this.#policy = { isJoinToken: equalsSecret(joinToken), credentialOf, identityOf, allowsV1Agents };
    this.#clock = options.clock ?? systemClock;
    this.#rates = new KeyedRates(this.#clock, publishLimit);
    this.#packetRates = new KeyedRates(this.#clock, packetLimit);
    this.#untrusted = new LimitedLog(log, this.#clock);
    this.#connections = new Connections(maxConnections);
    this.#requiresTls = requiresTls;
    this.#joins = new JoinGate(options.joinProblem, log);
    this.#splitter = new TlsSplitter({ loadTls: options.loadTls, log, onConnection: (socket) => this.#serve(socket) });
    this.#onRejected = options.onRejected ?? (() => {});
    this.bridgeCredentials = {
      username: bridgeUsername,
      password: options.random?.() ?? randomBytes(32).toString("base64url"),
    };
    this.#isBridgePassword = equalsSecret(this.bridgeCredentials.password);
    this.#aedes = createAedes({
      ...{ log, readTimeoutMs: options.readTimeoutMs },
      authenticate: (client, username, password, done) => {
        if (username === undefined || client.id !== joinClientId(username) || this.#lacksTls(client)) {
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
      authorizeForward: (client, packet) => (this.#mayForward(client) ? packet : null),
    });
    // The robot may have been revoked while it connected.
    this.#aedes.on("clientReady", (client) => {
      this.#connections.authenticated(client.conn as Socket);
      const id = this.#robots.get(client)?.robotId;
      if (id !== undefined) this.#connected.set(id, client);
      this.#check(client);
    });
    this.#aedes.on("clientDisconnect", (client) => {
      const id = this.#robots.get(client)?.robotId;
      if (id !== undefined && this.#connected.get(id) === client) this.#connected.delete(id);
    });
    // Without noDelay, an acknowledgement waits for the kernel's delayed ACK: 44 ms instead of 0.1.
    this.#server = createServer({ noDelay: true }, (socket) => {
      if (this.#connections.admit(socket)) this.#splitter.accept(socket);
    });
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

  /** Loads the certificates again, and closes connections of robots whose certificate is no longer trusted. **Errors**: those of `loadTls`. */
  async reloadTls(): Promise<void> {
    await this.#splitter.reload();
    for (const client of this.#connected.values()) this.#check(client);
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
    this.#connections.closeAll();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #closeAedes(): Promise<void> {
    await new Promise<void>((resolve) => this.#aedes.close(resolve));
  }

  #serve(socket: Socket): void {
    const client = this.#aedes.handle(socket) as Client;
    // The broker queues few packets of a client before it is authenticated. The bridge speaks for all robots.
    guardConnection(socket, maxPacketBytes, (takeCount) => {
      const id = this.#clientName(client);
      if (id === undefined || this.#packetRates.accept(id, takeCount())) return true;
      this.#untrusted.warn(id, { robot: id }, "robot disconnected: too many MQTT packets");
      return false;
    });
  }

  /** The id of a robot, or `join/<id>` of one that joins. */
  #clientName(client: Client): string | undefined {
    const joiner = this.#joiners.get(client);
    return joiner === undefined ? this.#robots.get(client)?.robotId : `join/${joiner}`;
  }

  #mayForward(client: Client): boolean {
    if (this.#bridges.has(client) || (client.conn as Socket).writableLength <= maxUnreadBytes) return true;
    const id = this.#clientName(client);
    this.#untrusted.warn(id, { robot: id }, "robot disconnected: its send buffer is full");
    client.close();
    return false;
  }

  #authenticate(client: Client, username: string | undefined, password: Uint8Array | undefined): boolean {
    if (username === bridgeUsername && password !== undefined && this.#isBridgePassword(password)) {
      this.#bridges.add(client);
      return true;
    }
    // An original agent has no user name. Its client id names the robot.
    const robotId = username ?? client.id.replace(agentClientId(""), "");
    const isOwnId = client.id === agentClientId(robotId) || (this.#lacksTls(client) && client.id === joinClientId(robotId));
    if (!robotIdPattern.test(robotId) || robotId === bridgeUsername || !isOwnId) {
      const names = { clientId: quote(client.id), username: quote(username) };
      this.#untrusted.warn(
        undefined,
        names,
        "MQTT client rejected: the user name must be a robot id, and the client id k8s4r-agent-<robot id>",
      );
      return false;
    }
    if (this.#lacksTls(client)) {
      return this.#reject(robotId, {
        reason: "TlsRequired",
        message: "it connected without TLS, which --mqtt-require-tls demands",
      });
    }
    const certificate = this.#certificateOf(client);
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

  #certificateOf({ conn }: Client): PeerCertificate | undefined {
    return peerCertificateOf(conn, this.#splitter.authorities, this.#clock.now());
  }

  #lacksTls(client: Client): boolean {
    return this.#requiresTls && !(client.conn instanceof TLSSocket);
  }

  #reject(robotId: string, { reason, message }: Omit<RobotRejection, "robotId">): false {
    this.#untrusted.warn(undefined, { robot: robotId, reason }, `robot rejected: ${message}`);
    this.#onRejected({ robotId, reason, message });
    return false;
  }

  #check(client: Client): void {
    const attempt = this.#robots.get(client);
    if (attempt === undefined) return;
    const { robotId, certificate } = attempt;
    const hasKey = certificate !== undefined || this.#policy.identityOf(robotId) !== undefined;
    const isRevoked = hasKey
      ? (certificate !== undefined && this.#certificateOf(client) === undefined) ||
        authenticateRobot({ ...attempt }, this.#policy).kind === "rejected"
      : this.#policy.credentialOf(robotId) === revokedCredential;
    if (!isRevoked) return;
    this.#log.info({ robot: robotId }, "robot disconnected: key, credential or certificate authority revoked or expired");
    client.close();
  }

  #authorizePublish(client: Client | null, packet: PublishPacket): Error | null {
    if (client === null || this.#bridges.has(client)) return null;
    const joiner = this.#joiners.get(client);
    if (joiner !== undefined && mayPublishToJoin(joiner, packet) && this.#rates.accept(`join/${joiner}`)) return null;
    const id = this.#robots.get(client)?.robotId;
    const payload = typeof packet.payload === "string" ? Buffer.from(packet.payload) : packet.payload;
    const { topic, qos, retain } = packet;
    const rejection =
      id === undefined
        ? "not authenticated"
        : this.#rates.accept(id)
          ? publishRejection(id, { topic, qos, retain, payload })
          : "too many messages";
    if (rejection !== undefined) {
      this.#untrusted.warn(id, { robot: id, topic: quote(topic) }, `MQTT publish rejected: ${quote(rejection)}`);
      return new Error(rejection);
    }
    if (retain && !mayRetain(topic)) packet.retain = false;
    return null;
  }

  #authorizeSubscribe(client: Client | null, filter: string): boolean {
    if (client === null) return false;
    const name = this.#clientName(client);
    if (name !== undefined && !this.#packetRates.accept(name, packetsPerTopic)) {
      this.#untrusted.warn(name, { robot: name }, "robot disconnected: too many MQTT subscriptions");
      client.close();
      return false;
    }
    const joiner = this.#joiners.get(client);
    if (joiner !== undefined && filter === topics.joinAnswer(joiner)) return true;
    const id = this.#robots.get(client)?.robotId;
    if (this.#bridges.has(client) || (id !== undefined && maySubscribe(id, filter))) return true;
    this.#untrusted.warn(id, { robot: id, topic: quote(filter) }, "MQTT subscription rejected");
    return false;
  }
}

/** Creates a {@link Broker} and starts to listen. **Errors**: see {@link listen}. */
export async function startBroker(options: BrokerOptions): Promise<Broker> {
  const broker = new Broker(options);
  await broker.listen(options.port ?? 1883);
  return broker;
}
