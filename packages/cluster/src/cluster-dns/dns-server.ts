import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { BlockList, createServer, type Server, type Socket } from "node:net";
import { messageOf, withLength } from "@keelson/execution/dns";
import { ClusterError } from "../cluster-error.ts";
import { type AnswerOptions, answerQuery } from "./dns-answers.ts";
import { type RequestLimitOptions, RequestLimits } from "./request-limits.ts";

/** Options of {@link startDnsServer}. */
export interface DnsServerOptions extends AnswerOptions {
  /** The address to listen on, at free ports. */
  readonly address: string;
  /** The network whose clients are served, in CIDR notation. */
  readonly clients: string;
  readonly limits?: Omit<RequestLimitOptions, "clock">;
  /** Time for a TCP client to send its next query, in milliseconds. Default 10000. */
  readonly idleMs?: number;
}

/** A running DNS server. */
export interface DnsServer {
  readonly udpPort: number;
  readonly tcpPort: number;
  stop(): Promise<void>;
}

/** Connections of all clients, and of one of them, at the same time. */
const maxConnections = 256;
const maxConnectionsPerSource = 16;
/** Answers that a TCP client has not read, in bytes. */
const maxUnread = 256 * 1024;

/** Starts a DNS server over UDP and TCP. Rejects if it cannot listen. */
export async function startDnsServer(options: DnsServerOptions): Promise<DnsServer> {
  const server = new SocketDnsServer(options);
  try {
    await server.listen();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

class SocketDnsServer implements DnsServer {
  readonly #options: DnsServerOptions;
  readonly #limits: RequestLimits;
  readonly #clients = new BlockList();
  readonly #udp: UdpSocket = createSocket("udp4");
  readonly #tcp: Server;
  readonly #connections = new Map<Socket, string>();
  #isStopped = false;

  constructor(options: DnsServerOptions) {
    this.#options = options;
    this.#limits = new RequestLimits({ clock: options.clock, ...options.limits });
    const [network = "", length = "32"] = options.clients.split("/");
    this.#clients.addSubnet(network, Number(length), "ipv4");
    this.#tcp = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    this.#tcp.maxConnections = maxConnections;
  }

  get udpPort(): number {
    return this.#udp.address().port;
  }

  get tcpPort(): number {
    const address = this.#tcp.address();
    if (address === null || typeof address === "string")
      throw new ClusterError("CommandFailed", "the DNS server does not listen");
    return address.port;
  }

  async listen(): Promise<void> {
    this.#udp.on("message", (message, sender) => void this.#serveDatagram(message, sender));
    this.#udp.bind(0, this.#options.address);
    await once(this.#udp, "listening");
    // Errors of a single send, such as a Pod that has exited, do not end the server.
    this.#udp.on("error", () => {});
    this.#tcp.listen(0, this.#options.address);
    await once(this.#tcp, "listening");
    this.#tcp.on("error", () => {});
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    for (const socket of this.#connections.keys()) socket.destroy();
    await Promise.all([
      new Promise<void>((resolve) => this.#udp.close(() => resolve())),
      new Promise<void>((resolve) => void this.#tcp.close(() => resolve())),
    ]);
  }

  async #serveDatagram(message: Buffer, { address, port }: RemoteInfo): Promise<void> {
    if (!this.#clients.check(address, "ipv4")) return;
    const answer = await this.#answer(message, "udp", address);
    if (answer !== undefined && !this.#isStopped) this.#udp.send(answer, port, address);
  }

  /** Answers within the limits. Clients repeat a query that is dropped. */
  async #answer(message: Buffer, transport: "udp" | "tcp", source: string): Promise<Buffer | undefined> {
    if (!this.#limits.begin(source)) return undefined;
    try {
      return await answerQuery(message, transport, this.#options);
    } catch {
      // Not a DNS message, or one that cannot be encoded again.
      return undefined;
    } finally {
      this.#limits.end(source);
    }
  }

  #accept(socket: Socket): void {
    const source = socket.remoteAddress ?? "";
    const own = [...this.#connections.values()].filter((each) => each === source).length;
    if (this.#isStopped || !this.#clients.check(source, "ipv4") || own >= maxConnectionsPerSource) {
      socket.destroy();
      return;
    }
    this.#connections.set(socket, source);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#connections.delete(socket));
    void this.#serveConnection(socket, source).finally(() => socket.end());
  }

  /** Answers the queries of a connection one after another, until a query is late, dropped or malformed. */
  async #serveConnection(socket: Socket, source: string): Promise<void> {
    const { clock, idleMs = 10_000 } = this.#options;
    const watch = (): { cancel(): void } => clock.setTimer(idleMs, () => socket.destroy(), { background: true });
    let idle = watch();
    try {
      let received: Buffer = Buffer.alloc(0);
      for await (const bytes of socket) {
        received = Buffer.concat([received, bytes as Buffer]);
        for (let message = messageOf(received); message !== undefined; message = messageOf(received)) {
          received = received.subarray(message.length + 2);
          idle.cancel();
          const answer = await this.#answer(message, "tcp", source);
          if (answer === undefined || socket.writableLength > maxUnread) return;
          socket.write(withLength(answer));
          idle = watch();
        }
      }
    } catch {
      // The client closed the connection.
    } finally {
      idle.cancel();
    }
  }
}
