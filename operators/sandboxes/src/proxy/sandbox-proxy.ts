import { once } from "node:events";
import {
  type ClientRequest,
  createServer as createHttpServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import { ConnectionLimit } from "../connections/connection-limit.ts";
import type { TlsMaterial } from "../fastpath/tls/serving-tls.ts";
import { answerOf, closeOf, requireWebSocket } from "./proxied-connection.ts";
import { cookieName, requestHeaders, responseHeaders } from "./proxied-headers.ts";
import type { GrantedRequest, ProxyAccess } from "./proxy-access.ts";
import { ProxyError } from "./proxy-error.ts";

/*
 * An HTTP/1.1 proxy to the exposed ports of sandboxes, by host name. Requests and answers are parsed here and written anew, so neither end
 * can make the other one see a message that the proxy does not. Each request has its own connection, through the authenticated
 * connection to the agent.
 */

/** Options of {@link startSandboxProxy}. */
export interface SandboxProxyOptions {
  readonly bindAddress: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Whether clients use TLS, here or at a gateway before the proxy. */
  readonly isSecure: boolean;
  /** Default: no TLS. */
  readonly tls?: TlsMaterial | undefined;
  readonly access: Pick<ProxyAccess, "authorize">;
  /** Connects to the port of a sandbox. */
  readonly connect: (target: GrantedRequest, signal: AbortSignal) => Promise<Duplex>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A listening proxy. */
export interface SandboxProxy {
  readonly url: string;
  /** Uses this certificate for new connections. */
  setTls(material: TlsMaterial): void;
  close(): Promise<void>;
}

const maxConnections = 1024;
/** Maximum number of requests to one sandbox at the same time. */
const maxRequestsPerSandbox = 128;
const maxHeaderBytes = 32 * 1024;
const headersTimeoutMs = 10_000;
const keepAliveTimeoutMs = 10_000;
/** Idle time after which TCP probes a connection. */
const keepAliveDelayMs = 30_000;
/** How often timeouts are checked. */
const checkingIntervalMs = 5_000;

/** Starts a proxy. Rejects if it cannot listen. */
export async function startSandboxProxy(options: SandboxProxyOptions): Promise<SandboxProxy> {
  const proxy = new HttpSandboxProxy(options);
  await proxy.listen();
  return proxy;
}

class HttpSandboxProxy implements SandboxProxy {
  url = "";
  readonly #options: SandboxProxyOptions;
  readonly #server: Server | HttpsServer;
  readonly #connections = new ConnectionLimit(maxConnections);
  /** Requests in progress, by sandbox id. */
  readonly #open = new Map<string, number>();

  constructor(options: SandboxProxyOptions) {
    this.#options = options;
    const limits = {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout: headersTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
      requestTimeout: 0,
      // Finds clients that have vanished.
      keepAlive: true,
      keepAliveInitialDelay: keepAliveDelayMs,
      connectionsCheckingInterval: checkingIntervalMs,
    };
    const { tls } = options;
    this.#server =
      tls === undefined
        ? createHttpServer(limits)
        : createHttpsServer({
            ...{ ...limits, handshakeTimeout: headersTimeoutMs },
            ...{ cert: tls.certificate, key: tls.key, minVersion: "TLSv1.2" as const },
          });
    this.#server.on("connection", (socket: Socket) => this.#connections.add(socket));
    this.#server.on("request", (incoming, response) => void this.#serve(incoming, response));
    this.#server.on(
      "upgrade",
      (incoming: IncomingMessage, socket: Duplex, head: Buffer) => void this.#upgrade(incoming, socket, head),
    );
    this.#server.on("clientError", (_error, socket) => socket.destroy());
  }

  async listen(): Promise<void> {
    const { port, bindAddress, tls } = this.#options;
    this.#server.listen(port, bindAddress);
    await once(this.#server, "listening");
    const host = bindAddress.includes(":") ? `[${bindAddress}]` : bindAddress;
    this.url = `${tls === undefined ? "http" : "https"}://${host}:${(this.#server.address() as AddressInfo).port}`;
  }

  setTls({ certificate, key }: TlsMaterial): void {
    if ("setSecureContext" in this.#server) this.#server.setSecureContext({ cert: certificate, key });
  }

  async close(): Promise<void> {
    this.#connections.closeAll();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const granted = await this.#options.access.authorize(incoming);
      if (granted.signature !== undefined && isNavigation(incoming)) return this.#exchange(granted, response);
      const closed = closeOf(response, incoming.socket);
      this.#use(granted, incoming.socket, closed);
      await this.#forward(granted, incoming, response, closed);
    } catch (error) {
      if (response.headersSent) return void response.destroy();
      const { status, text } = this.#failure(error);
      // The rest of the request's body is not read.
      response.writeHead(status, { ...failureHeaders(status), connection: "close" }).end(text);
    }
  }

  /** Sets the cookie and removes the signature from the address bar, from the history and from referrers. */
  #exchange({ signature, expiresAtMs = 0, target }: GrantedRequest, response: ServerResponse): void {
    const { isSecure, clock } = this.#options;
    const seconds = Math.max(Math.floor((expiresAtMs - clock.now()) / 1000), 0);
    const cookie = `${cookieName(isSecure)}=${signature ?? ""}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${isSecure ? "; Secure" : ""}`;
    const headers = { "set-cookie": cookie, "cache-control": "no-store", "referrer-policy": "no-referrer" };
    // A target that begins with two slashes would name another host.
    response.writeHead(303, { ...headers, location: target.replace(/^[/\\\s]+/, "/") }).end();
  }

  async #forward(
    granted: GrantedRequest,
    incoming: IncomingMessage,
    response: ServerResponse,
    closed: AbortSignal,
  ): Promise<void> {
    const sent = await this.#send(granted, incoming, closed);
    incoming.on("error", () => sent.destroy());
    incoming.pipe(sent);
    const { answer, target } = await answerOf(sent);
    if (target !== undefined) {
      target.destroy();
      throw new ProxyError(502, "the sandbox switched protocols without a request to do so");
    }
    response.sendDate = false;
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", responseHeaders(answer));
    response.flushHeaders();
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  }

  async #upgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on("error", () => socket.destroy());
    try {
      requireWebSocket(incoming);
      const granted = await this.#options.access.authorize(incoming);
      const closed = closeOf(socket, incoming.socket);
      this.#use(granted, incoming.socket, closed);
      const sent = await this.#send(granted, incoming, closed);
      sent.end();
      const { answer, target, first } = await answerOf(sent);
      if (target === undefined) {
        answer.destroy();
        throw new ProxyError(502, `the sandbox answered the upgrade with status ${answer.statusCode ?? 0}`);
      }
      const headers = ["Connection", "Upgrade", "Upgrade", "websocket", ...responseHeaders(answer)];
      socket.write(`${headOf(101, headers)}`);
      join(socket, target, head, first ?? Buffer.alloc(0));
    } catch (error) {
      const { status, text } = this.#failure(error);
      const headers = Object.entries({
        ...failureHeaders(status),
        connection: "close",
        "content-length": String(Buffer.byteLength(text)),
      });
      // The server's timeouts no longer apply: a client that keeps its end open would keep the connection.
      socket.end(`${headOf(status, headers.flat())}${text}`, () => socket.destroy());
    }
  }

  /** Sends the head of a request to the sandbox. Closes the connection with the client's. */
  async #send(granted: GrantedRequest, incoming: IncomingMessage, closed: AbortSignal): Promise<ClientRequest> {
    const encoding = incoming.headers["transfer-encoding"] ?? "chunked";
    if (encoding.toLowerCase() !== "chunked") throw new ProxyError(501, "transfer-encoding: must be chunked");
    const connection = await this.#options.connect(granted, closed);
    connection.on("error", () => {});
    closed.addEventListener("abort", () => connection.destroy(), { once: true });
    if (closed.aborted) connection.destroy();
    const { hidesAuthorization, target } = granted;
    const { isSecure } = this.#options;
    const sent = request({
      ...{ method: incoming.method ?? "GET", path: target, createConnection: () => connection },
      headers: requestHeaders(incoming, { isSecure, hidesAuthorization }),
      maxHeaderSize: maxHeaderBytes,
      setHost: false,
    });
    sent.on("error", () => connection.destroy());
    return sent;
  }

  /** Counts a request until it closes, and closes its connection when its access ends. **Errors**: `ProxyError` above the limit. */
  #use({ sandboxId, expiresAtMs }: GrantedRequest, socket: Socket, closed: AbortSignal): void {
    closed.throwIfAborted();
    this.#connections.assign(socket, sandboxId);
    const { clock } = this.#options;
    const count = this.#open.get(sandboxId) ?? 0;
    if (count >= maxRequestsPerSandbox)
      throw new ProxyError(429, `too many requests to the sandbox at the same time: must be at most ${maxRequestsPerSandbox}`);
    this.#open.set(sandboxId, count + 1);
    const remainingMs = expiresAtMs === undefined ? undefined : Math.max(expiresAtMs - clock.now(), 0);
    const expiry = remainingMs === undefined ? undefined : clock.setTimer(remainingMs, () => socket.destroy());
    const release = (): void => {
      expiry?.cancel();
      const left = (this.#open.get(sandboxId) ?? 1) - 1;
      if (left > 0) this.#open.set(sandboxId, left);
      else this.#open.delete(sandboxId);
    };
    closed.addEventListener("abort", release, { once: true });
  }

  #failure(error: unknown): { readonly status: number; readonly text: string } {
    if (error instanceof ProxyError) return { status: error.status, text: `${error.message}\n` };
    this.#options.log.debug({ err: error }, "could not forward a request to a sandbox");
    return { status: 502, text: "the sandbox did not respond on this port\n" };
  }
}

/** A browser that opens a page. Other clients keep no cookie after a redirection. */
const isNavigation = ({ method, headers }: IncomingMessage): boolean =>
  (method === "GET" || method === "HEAD") &&
  (headers["sec-fetch-mode"] === "navigate" || /\btext\/html\b/.test(headers.accept ?? ""));

const failureHeaders = (status: number): Readonly<Record<string, string>> => ({
  "content-type": "text/plain; charset=utf-8",
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  ...(status === 401 && { "www-authenticate": "Bearer" }),
});

/** The head of an answer; node has checked that its headers contain no line break. */
function headOf(status: number, headers: readonly string[]): string {
  const lines = headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1] ?? ""}`] : []));
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines, "", ""].join("\r\n");
}

/** Connects two streams until either ends or closes: a WebSocket has no use for a connection that is open in one direction. */
function join(client: Duplex, target: Duplex, head: Buffer, first: Buffer): void {
  const close = (): void => {
    client.destroy();
    target.destroy();
  };
  for (const each of [client, target]) each.on("error", close).once("close", close);
  if (head.length > 0) target.write(head);
  if (first.length > 0) client.write(first);
  client.pipe(target).once("finish", close);
  target.pipe(client, { end: false });
  target.once("end", () => client.end(close));
}
