import { once } from "node:events";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer as createHttp2Server, type Http2Server } from "node:http2";
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from "node:net";
import { Code, ConnectError, type ConnectRouter, type Interceptor } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { hasToken } from "../bearer-token.ts";

/** A listening gRPC server. */
export interface FastPathServer {
  readonly url: string;
  close(): Promise<void>;
}

const maxMessageBytes = 1 << 20;
const maxConnections = 256;

/** A connection that sends nothing for this long is closed. */
const firstByteTimeoutMs = 10_000;

/**
 * Serves gRPC, Connect and gRPC-web without TLS, over HTTP/2 and, for calls that do not stream in both directions, HTTP/1.1. Every call needs
 * the bearer token.
 */
export async function startFastPathServer(options: {
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly token: string;
  readonly routes: (router: ConnectRouter) => void;
}): Promise<FastPathServer> {
  const authenticate: Interceptor = (next) => (request) => {
    if (!hasToken(request.header.get("authorization"), options.token)) {
      throw new ConnectError("bearer token required: authorization: Bearer <content of the token file>", Code.Unauthenticated);
    }
    return next(request);
  };
  const handler = connectNodeAdapter({ routes: options.routes, interceptors: [authenticate], readMaxBytes: maxMessageBytes });
  const server = new FastPathListener(handler);
  await server.listen(options.port, options.bindAddress);
  return server;
}

type Handler = ReturnType<typeof connectNodeAdapter>;

/** Serves HTTP/2 and HTTP/1.1 on one port: a connection's first bytes say which. */
class FastPathListener implements FastPathServer {
  url = "";
  readonly #listener: NetServer;
  readonly #http2: Http2Server;
  readonly #http1: HttpServer;
  readonly #sockets = new Set<Socket>();

  constructor(handler: Handler) {
    this.#http2 = createHttp2Server({ settings: { maxConcurrentStreams: 256 } }, handler);
    this.#http2.on("session", (session) => session.on("error", () => {}));
    this.#http1 = createHttpServer({ requestTimeout: 0, headersTimeout: 10_000, keepAliveTimeout: 60_000 }, handler);
    // Starts the check of the timeouts, as the server itself does not listen.
    this.#http1.emit("listening");
    this.#listener = createServer((socket) => this.#accept(socket));
  }

  async listen(port: number, address: string): Promise<void> {
    this.#listener.listen(port, address);
    await once(this.#listener, "listening");
    this.url = `http://${address}:${(this.#listener.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#http1.close();
    this.#http2.close();
    await new Promise<void>((resolve) => this.#listener.close(() => resolve()));
  }

  #accept(socket: Socket): void {
    if (this.#sockets.size >= maxConnections) {
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.setTimeout(firstByteTimeoutMs, () => socket.destroy());
    socket.once("data", (data: Buffer) => {
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      socket.pause();
      socket.unshift(data);
      // No method of HTTP/1.1 that is served begins with the first byte of HTTP/2's preface, `PRI * HTTP/2.0`, followed by its second.
      const isHttp2 = data.subarray(0, 2).toString("latin1") === "PR" || data.toString("latin1") === "P";
      (isHttp2 ? this.#http2 : this.#http1).emit("connection", socket);
      if (!isHttp2) socket.resume();
    });
  }
}
