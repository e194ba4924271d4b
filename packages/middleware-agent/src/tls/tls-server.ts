import { createServer as createPlainServer, type Server, type Socket } from "node:net";
import { createServer, type Server as SecureServer, type TLSSocket, type TlsOptions } from "node:tls";
import type { TlsMode } from "./tls-mode.ts";

/** Options of {@link TlsServer}. */
export interface TlsServerOptions {
  /** Undefined: without TLS. */
  readonly tls?: { readonly mode: TlsMode; readonly options: TlsOptions } | undefined;
  /** A connection, after its handshake if it has TLS. */
  readonly onConnection: (socket: Socket | TLSSocket, isSecure: boolean) => void;
  readonly maxConnections?: number;
}

/** First byte of a TLS connection: the type of a handshake record. */
const handshakeRecord = 22;
const firstByteTimeoutMs = 10_000;

/** A server that accepts connections with or without TLS on one port, as its mode says. */
export class TlsServer {
  readonly #options: TlsServerOptions;
  readonly #server: Server;
  readonly #secure: SecureServer | undefined;
  readonly #sockets = new Set<Socket>();

  constructor(options: TlsServerOptions) {
    const { tls, onConnection, maxConnections } = options;
    this.#options = options;
    this.#server = createPlainServer((socket) => this.#accept(socket));
    if (maxConnections !== undefined) this.#server.maxConnections = maxConnections;
    if (tls === undefined) return;
    this.#secure = createServer(tls.options, (socket) => onConnection(socket, true));
    this.#secure.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  /** Starts to listen. Rejects if the port is in use. */
  async listen(port: number, host: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, resolve);
    });
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Sets the certificates of later connections. */
  setCertificates(options: TlsOptions): void {
    this.#secure?.setSecureContext(options);
  }

  /** Ends all connections. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
    const { tls, onConnection } = this.#options;
    if (tls === undefined) return onConnection(socket, false);
    if (tls.mode === "require") return void this.#secure?.emit("connection", socket);
    socket.setTimeout(firstByteTimeoutMs, () => socket.destroy());
    // Not "data": a socket that flows would lose what arrives before its next reader.
    socket.once("readable", () => {
      const first = socket.read() as Buffer | null;
      if (first === null) return;
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      socket.unshift(first);
      if (first[0] === handshakeRecord) this.#secure?.emit("connection", socket);
      else onConnection(socket, false);
    });
  }
}
