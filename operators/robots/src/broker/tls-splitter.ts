import { constants, type X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type SecureContextOptions, type Server, type TLSSocket } from "node:tls";
import type { Logger } from "@keelson/controller";

/** First byte of a TLS connection: the content type of a handshake record (RFC 8446 section 5.1). */
const handshakeRecord = 0x16;

const defaultHandshakeTimeoutMs = 10_000;

/** Certificates of the broker's TLS side. */
export interface BrokerTls {
  /** PEM: the broker's certificate and its private key. */
  readonly certificate: string;
  readonly key: string;
  /** The authorities that sign certificates of robots. */
  readonly authorities: readonly X509Certificate[];
}

/** Options of a {@link TlsSplitter}. */
export interface TlsSplitterOptions {
  /** Loads the certificates for the first TLS connection. Undefined: TLS connections are closed. */
  readonly loadTls: (() => Promise<BrokerTls>) | undefined;
  readonly log: Logger;
  /** Handles a plain connection, or a TLS connection after its handshake. */
  readonly onConnection: (socket: Socket | TLSSocket) => void;
  /** A client has to send its first byte, and complete the handshake, within this time. Default: 10 s. */
  readonly handshakeTimeoutMs?: number;
}

/**
 * Serves TLS 1.3 and plain MQTT on the same port: a TLS connection begins with another byte than an MQTT packet. The certificate of a client
 * is requested and not judged here.
 */
export class TlsSplitter {
  readonly #options: TlsSplitterOptions;
  readonly #handshakeTimeoutMs: number;
  #server: Promise<Server> | undefined;
  #authorities: readonly X509Certificate[] = [];

  constructor(options: TlsSplitterOptions) {
    this.#options = options;
    this.#handshakeTimeoutMs = options.handshakeTimeoutMs ?? defaultHandshakeTimeoutMs;
  }

  /** The authorities of robots' certificates. Empty before the first TLS connection. */
  get authorities(): readonly X509Certificate[] {
    return this.#authorities;
  }

  /** Loads the certificates again, for later connections. Does nothing before the first TLS connection. **Errors**: those of `loadTls`. */
  async reload(): Promise<void> {
    const { loadTls } = this.#options;
    const server = await this.#server?.catch(() => undefined);
    if (server === undefined || loadTls === undefined) return;
    server.setSecureContext(this.#contextOf(await loadTls()));
  }

  /** Handles a connection that was just accepted. */
  accept(socket: Socket): void {
    socket.setTimeout(this.#handshakeTimeoutMs, () => socket.destroy());
    socket.on("error", (error) => this.#options.log.debug({}, `MQTT connection: ${error.message}`));
    socket.once("readable", () => {
      const chunk: Buffer | null = socket.read();
      if (chunk === null) {
        socket.destroy();
        return;
      }
      socket.unshift(chunk);
      if (chunk[0] === handshakeRecord) {
        void this.#acceptTls(socket);
        return;
      }
      socket.setTimeout(0);
      this.#options.onConnection(socket);
    });
  }

  async #acceptTls(socket: Socket): Promise<void> {
    const { loadTls, log } = this.#options;
    if (loadTls === undefined) {
      socket.destroy();
      return;
    }
    this.#server ??= this.#createServer(loadTls);
    try {
      const server = await this.#server;
      if (socket.destroyed) return;
      // The TLS server limits the handshake itself. Afterwards, silence is the keep-alive's concern.
      socket.setTimeout(0);
      server.emit("connection", socket);
    } catch (error) {
      this.#server = undefined;
      log.warn({ error: String(error) }, "could not load the broker's certificate; retrying with the next connection");
      socket.destroy();
    }
  }

  async #createServer(loadTls: () => Promise<BrokerTls>): Promise<Server> {
    const { onConnection, log } = this.#options;
    const server = createServer({
      ...this.#contextOf(await loadTls()),
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: this.#handshakeTimeoutMs,
    });
    server.on("secureConnection", (socket) => {
      socket.setTimeout(0);
      socket.setNoDelay(true);
      onConnection(socket);
    });
    server.on("tlsClientError", (error, socket) => {
      log.debug({}, `TLS handshake: ${error.message}`);
      socket.destroy();
    });
    return server;
  }

  #contextOf({ certificate, key, authorities }: BrokerTls): SecureContextOptions {
    this.#authorities = authorities;
    return {
      cert: certificate,
      key,
      ca: authorities.map(String),
      minVersion: "TLSv1.3",
      // A resumed session would carry the certificate of an earlier connection.
      secureOptions: constants.SSL_OP_NO_TICKET,
    };
  }
}
