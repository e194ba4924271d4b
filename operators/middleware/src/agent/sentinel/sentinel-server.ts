import type { Socket } from "node:net";
import type { Clock, Timer } from "@keelson/api-machinery/time";
import { type ProgramTls, TlsServer } from "@keelson/middleware-agent";
import { parseReply, type Reply } from "../redis/resp-client.ts";
import { answerSentinel, SentinelError, switchChannel, switchMessage, type Topology } from "./sentinel-commands.ts";

/** Maximum size of an incomplete request. */
const maxRequestBytes = 16_384;
const maxConnections = 1_000;
/** Interval at which the topology is compared while there are subscribers. */
const compareMs = 200;

/** Options of {@link SentinelServer}. */
export interface SentinelOptions {
  readonly host: string;
  readonly port: number;
  /** Whether a password of the App is accepted. */
  readonly accepts: (password: string) => boolean;
  readonly clock: Clock;
  /** `isSecure`: for a client that connected with TLS. */
  readonly topology: (isSecure: boolean) => Promise<Topology>;
  /** Undefined: without TLS. */
  readonly tls?: ProgramTls | undefined;
}

interface Connection {
  readonly socket: Socket;
  readonly isSecure: boolean;
  buffer: Buffer;
  isAuthenticated: boolean;
  /** Channels and patterns. */
  readonly channels: Set<string>;
  readonly patterns: Set<string>;
}

/**
 * Answers clients that discover the primary by the Sentinel protocol, and publishes a new primary on `+switch-master`. It decides
 * nothing: it reports the primary that the agents and the controller chose. Connections authenticate with the App's password.
 */
export class SentinelServer {
  readonly #options: SentinelOptions;
  readonly #connections = new Set<Connection>();
  readonly #server: TlsServer;
  #timer: Timer | undefined;
  #primary: string | undefined;
  #isStopping = false;

  private constructor(options: SentinelOptions) {
    this.#options = options;
    const { tls } = options;
    this.#server = new TlsServer({
      ...(tls === undefined ? {} : { tls: { mode: tls.mode, options: contextOf(tls) } }),
      onConnection: (socket, isSecure) => this.#accept(socket, isSecure),
      maxConnections,
    });
    tls?.certificates.onChange(() => this.#server.setCertificates(contextOf(tls)));
  }

  /** Starts to listen. Rejects if the port is in use. */
  static async start(options: SentinelOptions): Promise<SentinelServer> {
    const server = new SentinelServer(options);
    await server.#server.listen(options.port, options.host);
    return server;
  }

  get port(): number {
    return this.#server.port;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#timer?.cancel();
    await this.#server.stop();
  }

  #accept(socket: Socket, isSecure: boolean): void {
    if (this.#isStopping) {
      socket.destroy();
      return;
    }
    const connection: Connection = {
      socket,
      isSecure,
      buffer: Buffer.alloc(0),
      isAuthenticated: false,
      channels: new Set(),
      patterns: new Set(),
    };
    this.#connections.add(connection);
    let work = Promise.resolve();
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#connections.delete(connection));
    socket.on("data", (chunk) => {
      connection.buffer = Buffer.concat([connection.buffer, chunk]);
      work = work.then(() => this.#read(connection)).catch(() => void socket.destroy());
    });
  }

  async #read(connection: Connection): Promise<void> {
    for (;;) {
      const { buffer, socket } = connection;
      if (buffer.length === 0 || socket.destroyed) return;
      // Only arrays of bulk strings; no inline commands.
      const parsed = String.fromCharCode(buffer[0] ?? 0) === "*" ? parseReply(buffer, 0) : undefined;
      if (parsed === undefined) {
        if (buffer.length > maxRequestBytes || buffer[0] !== 42) socket.end("-ERR Protocol error\r\n");
        return;
      }
      connection.buffer = buffer.subarray(parsed.end);
      const words = Array.isArray(parsed.reply) ? parsed.reply.map(String) : [];
      await this.#answer(connection, words);
    }
  }

  async #answer(connection: Connection, words: readonly string[]): Promise<void> {
    const { socket } = connection;
    try {
      const reply = await this.#replyTo(connection, words);
      if (reply !== undefined) socket.write(encodeReply(reply));
    } catch (error) {
      if (!(error instanceof SentinelError)) throw error;
      socket.write(`-${error.message}\r\n`);
    }
  }

  async #replyTo(connection: Connection, words: readonly string[]): Promise<Reply | undefined> {
    const command = words[0]?.toUpperCase() ?? "";
    if (command === "AUTH") return this.#authenticate(connection, words.at(-1) ?? "");
    if (command === "HELLO") return this.#greet(connection, words);
    if (command === "QUIT") {
      connection.socket.end("+OK\r\n");
      return undefined;
    }
    if (!connection.isAuthenticated) throw new SentinelError("NOAUTH Authentication required.");
    if (/^P?(UN)?SUBSCRIBE$/.test(command)) return this.#subscribe(connection, command, words.slice(1));
    return answerSentinel(words, await this.#options.topology(connection.isSecure));
  }

  #authenticate(connection: Connection, password: string): Reply {
    if (!this.#options.accepts(password))
      throw new SentinelError("WRONGPASS invalid username-password pair or user is disabled.");
    connection.isAuthenticated = true;
    return "OK";
  }

  /** RESP2 only: clients fall back to it. */
  #greet(connection: Connection, words: readonly string[]): Reply {
    if (words[1] !== undefined && words[1] !== "2") throw new SentinelError("NOPROTO unsupported protocol version");
    const at = words.findIndex((word) => word.toUpperCase() === "AUTH");
    if (at > 0) this.#authenticate(connection, words[at + 2] ?? "");
    if (!connection.isAuthenticated)
      throw new SentinelError("NOAUTH HELLO must be called with the client already authenticated");
    return ["server", "redis", "version", "7.0.0", "proto", 2, "mode", "sentinel", "role", "sentinel"];
  }

  async #subscribe(connection: Connection, command: string, names: readonly string[]): Promise<undefined> {
    // Before the reply: a subscriber receives every later change.
    this.#primary ??= (await this.#options.topology(connection.isSecure)).primary;
    const set = command.startsWith("P") ? connection.patterns : connection.channels;
    for (const name of names) {
      if (command.includes("UN")) set.delete(name);
      else set.add(name);
      const count = connection.channels.size + connection.patterns.size;
      connection.socket.write(encodeReply([command.toLowerCase(), name, count]));
    }
    if (this.#timer === undefined) this.#schedule(0);
    return undefined;
  }

  #schedule(delayMs: number): void {
    this.#timer = undefined;
    const subscribers = [...this.#connections].filter(({ channels, patterns }) => channels.size + patterns.size > 0);
    if (subscribers.length === 0) {
      this.#primary = undefined;
      return;
    }
    const compare = (): void => void this.#publish(subscribers).finally(() => this.#schedule(compareMs));
    this.#timer = this.#options.clock.setTimer(delayMs, compare, { background: true });
  }

  async #publish(subscribers: readonly Connection[]): Promise<void> {
    const { topology } = this.#options;
    const [plain, secure] = await Promise.all([topology(false), topology(true)]).catch(() => []);
    const [before, primary] = [this.#primary, plain?.primary];
    if (plain === undefined || secure === undefined || primary === undefined) return;
    this.#primary = primary;
    if (before === undefined || before === primary) return;
    for (const { socket, isSecure, channels, patterns } of subscribers) {
      const message = switchMessage(isSecure ? secure : plain, before, primary);
      if (channels.has(switchChannel)) socket.write(encodeReply(["message", switchChannel, message]));
      for (const pattern of patterns)
        if (pattern === "*" || pattern === switchChannel)
          socket.write(encodeReply(["pmessage", pattern, switchChannel, message]));
    }
  }
}

function contextOf({ certificates: { current } }: ProgramTls) {
  return { cert: current.certificate, key: current.key };
}

/** Encodes a reply as RESP2. Strings are bulk strings, except OK and PONG, which clients expect as simple ones. */
function encodeReply(reply: Reply): string {
  if (reply === null) return "*-1\r\n";
  if (typeof reply === "number") return `:${reply}\r\n`;
  if (typeof reply !== "string") return `*${reply.length}\r\n${reply.map(encodeReply).join("")}`;
  return reply === "OK" || reply === "PONG" ? `+${reply}\r\n` : `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`;
}
