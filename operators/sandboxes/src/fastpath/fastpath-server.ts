import { once } from "node:events";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { createServer as createHttp2Server, type Http2Server } from "node:http2";
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from "node:net";
import { createServer as createTlsServer, type SecureContextOptions, type Server as TlsServer, type TLSSocket } from "node:tls";
import { ConnectError, type ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { BodyLimit } from "../connections/body-limit.ts";
import { ConnectionLimit } from "../connections/connection-limit.ts";
import type { CallGate } from "./access/authorize-calls.ts";
import { callRules } from "./access/call-rules.ts";
import { callerConnectionKey, contextOf } from "./access/caller-connection.ts";
import { type CallRequest, type CallResponse, rejectCall } from "./access/reject-call.ts";
import type { TlsMaterial } from "./tls/serving-tls.ts";

/** A listening gRPC server. */
export interface FastPathServer {
  /** Begins with `https://` if callers need TLS. */
  readonly url: string;
  /** Uses this certificate for new connections. */
  setTls(material: TlsMaterial): void;
  close(): Promise<void>;
}

/** Options of {@link startFastPathServer}. */
export interface FastPathServerOptions {
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Rejects calls without permission to make them. */
  readonly authorize: CallGate;
  /** Default: no TLS. */
  readonly tls?: TlsMaterial | undefined;
  /** Whether callers need TLS, which `authorize` enforces. Default: false. */
  readonly isTlsRequired?: boolean;
  readonly routes: (router: ConnectRouter) => void;
}

const maxMessageBytes = 1 << 20;
/** Maximum number of single messages that are read at the same time for a caller. */
const maxBodies = 64;
const maxConnections = 256;

/** A connection that sends nothing for this long is closed. */
const firstByteTimeoutMs = 10_000;

const handshakeTimeoutMs = 10_000;

/** First byte of a TLS connection: a handshake record. */
const tlsHandshake = 0x16;

/**
 * Serves gRPC, Connect and gRPC-web over HTTP/2 and, for calls that do not stream in both directions, HTTP/1.1. With `tls` the same port
 * serves TLS as well.
 */
export async function startFastPathServer(options: FastPathServerOptions): Promise<FastPathServer> {
  const { routes, authorize, tls, isTlsRequired = false } = options;
  const connections = new ConnectionLimit(maxConnections);
  const onAuthenticated = (socket: CallRequest["socket"]) => (caller: string) => connections.assign(socket, caller);
  const adapter = connectNodeAdapter({
    ...{ routes, readMaxBytes: maxMessageBytes },
    interceptors: [authorize.interceptor],
    contextValues: ({ socket }) => contextOf(socket, onAuthenticated(socket)),
  });
  const handler = admitCalls(authorize, adapter);
  const server = new FastPathListener(handler, tls, connections);
  await server.listen(options.port, options.bindAddress, isTlsRequired ? "https" : "http");
  return server;
}

type Handler = (request: CallRequest, response: CallResponse) => void;

/** Paths of calls with one message, which is read before anything decides on it. */
const singlePaths: ReadonlySet<string> = new Set(
  [...callRules.keys()].flatMap(({ methodKind, parent, name }) =>
    methodKind === "unary" || methodKind === "server_streaming" ? [`/${parent.typeName}/${name}`] : [],
  ),
);

/** A handler that reads nothing of a call before its caller has authenticated. */
function admitCalls({ admit }: CallGate, handler: Handler): Handler {
  const bodies = new BodyLimit(maxBodies);
  const serve: (...call: Parameters<Handler>) => Promise<void> = async (request, response) => {
    const caller = await admit(request.headers, contextOf(request.socket, () => {}).get(callerConnectionKey));
    const [path = ""] = (request.url ?? "").split("?");
    if (singlePaths.has(path)) {
      const leave = await bodies.enter(caller);
      for (const event of ["end", "close"] as const) request.once(event, leave);
      if (request.destroyed || response.destroyed) return leave();
    }
    handler(request, response);
  };
  return (request, response) => {
    serve(request, response).catch((error: unknown) => rejectCall(request, response, ConnectError.from(error)));
  };
}

/** Serves TLS, HTTP/2 and HTTP/1.1 on one port: a connection's first bytes say which. */
class FastPathListener implements FastPathServer {
  url = "";
  readonly #listener: NetServer;
  readonly #http2: Http2Server;
  readonly #http1: HttpServer;
  readonly #tls: TlsServer | undefined;
  readonly #connections: ConnectionLimit;

  constructor(handler: Handler, tls: TlsMaterial | undefined, connections: ConnectionLimit) {
    this.#connections = connections;
    this.#http2 = createHttp2Server({ settings: { maxConcurrentStreams: 256 } }, handler);
    this.#http2.on("session", (session) => session.on("error", () => {}));
    this.#http1 = createHttpServer({ requestTimeout: 0, headersTimeout: 10_000, keepAliveTimeout: 60_000 }, handler);
    // Starts the check of the timeouts, as the server itself does not listen.
    this.#http1.emit("listening");
    this.#tls = tls === undefined ? undefined : this.#createTlsServer(tls);
    this.#listener = createServer((socket) => this.#accept(socket));
  }

  async listen(port: number, address: string, scheme: "http" | "https"): Promise<void> {
    this.#listener.listen(port, address);
    await once(this.#listener, "listening");
    this.url = `${scheme}://${address}:${(this.#listener.address() as AddressInfo).port}`;
  }

  setTls(material: TlsMaterial): void {
    this.#tls?.setSecureContext(contextOptions(material));
  }

  async close(): Promise<void> {
    this.#connections.closeAll();
    this.#http1.close();
    this.#http2.close();
    await new Promise<void>((resolve) => this.#listener.close(() => resolve()));
  }

  #accept(socket: Socket): void {
    this.#connections.add(socket);
    socket.on("error", () => socket.destroy());
    socket.setTimeout(firstByteTimeoutMs, () => socket.destroy());
    socket.once("data", (data: Buffer) => {
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      socket.pause();
      socket.unshift(data);
      if (this.#tls !== undefined && data[0] === tlsHandshake) {
        this.#tls.emit("connection", socket);
        return;
      }
      // No method of HTTP/1.1 that is served begins with the first byte of HTTP/2's preface, `PRI * HTTP/2.0`, followed by its second.
      const isHttp2 = data.subarray(0, 2).toString("latin1") === "PR" || data.toString("latin1") === "P";
      (isHttp2 ? this.#http2 : this.#http1).emit("connection", socket);
      if (!isHttp2) socket.resume();
    });
  }

  #createTlsServer(material: TlsMaterial): TlsServer {
    const server = createTlsServer({
      ...contextOptions(material),
      minVersion: "TLSv1.2",
      ALPNProtocols: ["h2", "http/1.1"],
      handshakeTimeout: handshakeTimeoutMs,
      requestCert: true,
      // A call without a valid certificate is rejected with a reason, unless it has a token.
      rejectUnauthorized: false,
    });
    // Clients that do not trust the certificate end the handshake.
    server.on("tlsClientError", (_, socket: TLSSocket) => socket.destroy());
    server.on("secureConnection", (socket) => {
      socket.on("error", () => socket.destroy());
      (socket.alpnProtocol === "h2" ? this.#http2 : this.#http1).emit("connection", socket);
    });
    return server;
  }
}

const contextOptions = ({ certificate, key, clientAuthorities }: TlsMaterial): SecureContextOptions => ({
  ...{ cert: certificate, key },
  // Without an authority, no certificate is accepted: the default would be those of public web sites.
  ca: clientAuthorities || [],
});
