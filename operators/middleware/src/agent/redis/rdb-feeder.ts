import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Socket } from "node:net";
import { AgentError, type Certificates, TlsServer } from "@keelson/middleware-agent";
import { parseReply } from "./resp-client.ts";

/** Maximum size of an incomplete command of the server. */
const maxRequestBytes = 16_384;

/** What a feeder sends. */
export interface Feed {
  readonly host: string;
  /** The password that the server sends to its primary. */
  readonly password: string;
  /** Replication offset of the snapshot: newer than that of the data it replaces, so that replicas with old data never win an election. */
  readonly offset: number;
  readonly sizeBytes: number;
  readonly data: AsyncIterable<Uint8Array>;
  /** The server connects with TLS. Undefined: without. */
  readonly certificates?: Certificates | undefined;
}

/**
 * Poses as the primary of a server that shall load a snapshot, and sends it as the initial synchronization. The server replaces its data
 * only when it has all bytes, and writes its own files, so no file of its volume is touched from outside.
 */
export class RdbFeeder {
  readonly #feed: Feed;
  readonly #server: TlsServer;
  #hasStarted = false;
  #failure: AgentError | undefined;

  private constructor(feed: Feed) {
    this.#feed = feed;
    const { certificates: own } = feed;
    const tls = own && { mode: "require" as const, options: { cert: own.certificate, key: own.key } };
    this.#server = new TlsServer({ tls, onConnection: (socket) => this.#accept(socket) });
  }

  /** Why the server does not get the snapshot: the data ended early, or the server could not use it and requested it again. */
  get failure(): AgentError | undefined {
    return this.#failure;
  }

  /** Starts to listen on a free port. */
  static async start(feed: Feed): Promise<RdbFeeder> {
    const feeder = new RdbFeeder(feed);
    await feeder.#server.listen(0, feed.host);
    return feeder;
  }

  get port(): number {
    return this.#server.port;
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  #accept(socket: Socket): void {
    let buffer: Buffer = Buffer.alloc(0);
    let isAuthenticated = false;
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      for (;;) {
        // A server that is loading sends newlines, so that its primary does not time out.
        while (buffer[0] === 10) buffer = buffer.subarray(1);
        const parsed = buffer.length > 0 && buffer[0] === 42 ? parseReply(buffer, 0) : undefined;
        if (parsed === undefined) break;
        buffer = buffer.subarray(parsed.end);
        const [command = "", ...words] = Array.isArray(parsed.reply) ? parsed.reply.map(String) : [];
        if (command.toUpperCase() === "AUTH") isAuthenticated = this.#isPassword(words.at(-1) ?? "");
        if (isAuthenticated) this.#answer(socket, command.toUpperCase(), words);
        else socket.write(command.toUpperCase() === "PING" ? "+PONG\r\n" : "-NOAUTH Authentication required.\r\n");
      }
      if (buffer.length > maxRequestBytes || (buffer.length > 0 && buffer[0] !== 42)) socket.destroy();
    });
  }

  #isPassword(text: string): boolean {
    const digest = (value: string): Buffer => createHash("sha256").update(value).digest();
    return timingSafeEqual(digest(text), digest(this.#feed.password));
  }

  #answer(socket: Socket, command: string, words: readonly string[]): void {
    if (command === "PING") socket.write("+PONG\r\n");
    else if (command === "PSYNC" || command === "SYNC") this.#send(socket);
    // Acknowledgements have no reply.
    else if (!(command === "REPLCONF" && words[0]?.toUpperCase() === "ACK")) socket.write("+OK\r\n");
  }

  #send(socket: Socket): void {
    if (this.#hasStarted) {
      this.#failure ??= new AgentError("SnapshotFailed", "the program could not load the snapshot; its log has the reason");
      socket.destroy();
      return;
    }
    this.#hasStarted = true;
    void this.#sendAll(socket).catch((error: Error) => {
      this.#failure ??= new AgentError("SnapshotFailed", error.message, { cause: error });
      socket.destroy();
    });
  }

  async #sendAll(socket: Socket): Promise<void> {
    const { offset, sizeBytes, data } = this.#feed;
    socket.write(`+FULLRESYNC ${randomBytes(20).toString("hex")} ${offset}\r\n$${sizeBytes}\r\n`);
    let sentBytes = 0;
    for await (const chunk of data) {
      sentBytes += chunk.length;
      if (sentBytes > sizeBytes) break;
      if (!socket.write(chunk)) await drained(socket);
      if (socket.destroyed) throw new Error("the program closed the connection");
    }
    if (sentBytes !== sizeBytes) throw new Error(`the snapshot has ${sentBytes} bytes instead of ${sizeBytes}`);
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("drain", resolve);
    socket.once("close", resolve);
  });
}
