import { type IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { isStatusError, statusError } from "@keelson/api-machinery";
import type { Clock } from "@keelson/api-machinery/time";
import type { Authenticate } from "../auth/authentication/authenticator.ts";
import { clientCertificateOf } from "../auth/authentication/client-certificate.ts";
import type { Handle, ListOutcome, PipelineRequest, UpgradeOutcome } from "../endpoints/outcome.ts";
import { type RequestInfo, requestInfo } from "../endpoints/request-info.ts";
import { type Admission, type FlowController, longRunningSubresources } from "../flowcontrol/flow-controller.ts";
import { WorkEstimator } from "../flowcontrol/work-estimate.ts";
import { createBodyReader, type BodyReader } from "./body/request-body.ts";
import type { ToTable } from "./encode.ts";
import { defaultLimits, type HttpLimits, maxHeaderBytes } from "./http-limits.ts";
import { pipelineRequest } from "./http-request.ts";
import { createLazyAbort } from "./lazy-abort.ts";
import { listen } from "./listen.ts";
import { isConnectionError, malformedRequestResponse } from "./malformed-request.ts";
import { acceptedRepresentations } from "./negotiation.ts";
import { credentialHeaders, requestedAuditId, splitTarget, type Target } from "./request-target.ts";
import { type Exchange, Responder } from "./responder.ts";
import type { ResponseHeaders } from "./send.ts";

/** The server's certificates in PEM. */
export interface ServerTls {
  readonly certificate: string;
  readonly key: string;
  /** The authority that signs accepted client certificates. */
  readonly clientAuthority: string;
}

/** What {@link startHttpServer} takes. */
export interface HttpServerOptions {
  /** Handles authenticated requests. */
  readonly handle: Handle;
  /** Identifies the sender of a request. Throws a StatusError: 401, or 403 for impersonation. */
  readonly authenticate: Authenticate;
  readonly tls: ServerTls;
  readonly toTable: ToTable;
  /** Default `127.0.0.1`. */
  readonly bindAddress?: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly clock: Clock;
  /** Generates audit ids. */
  readonly newId: () => string;
  /** Called with internal errors, which clients see as 500. Default: ignored. */
  readonly onError?: (error: unknown, request: FailedRequest) => void;
  readonly limits?: Partial<HttpLimits>;
  /** Called after each request, with its duration unless it is long-running. */
  readonly onRequest?: (info: RequestInfo, code: number, durationMs: number | undefined) => void;
  /** Limits the concurrency of requests. Default: unlimited. */
  readonly flow?: FlowController;
}

/** The request that caused an internal error. */
export interface FailedRequest {
  readonly method: string;
  readonly path: string;
  readonly auditId: string;
}

/** A listening HTTPS server. */
export interface HttpServer extends AsyncDisposable {
  readonly port: number;
  /** `https://127.0.0.1:6443`. */
  readonly url: string;
  /** Replaces the certificates for new connections. */
  setTls(tls: ServerTls): void;
  /** Stops listening, ends watches, and waits for responses in progress up to `drainMs`. */
  close(): Promise<void>;
}

/**
 * Serves the Kubernetes API over HTTPS (HTTP/1.1).
 *
 * **Errors**: rejects with a {@link ListenError} if the port is in use or may not be opened.
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const server = new ApiHttpServer(options);
  await server.listen();
  return server;
}

interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

class ApiHttpServer implements HttpServer {
  readonly #options: HttpServerOptions;
  readonly #limits: HttpLimits;
  readonly #responder: Responder;
  readonly #bodies: BodyReader;
  readonly #server: Server;
  readonly #estimator = new WorkEstimator();
  /** Connections that switched to another protocol. */
  readonly #upgraded = new Set<Duplex>();
  #port = 0;
  #isClosing = false;
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    const { clock, toTable } = options;
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#responder = new Responder({ toTable, clock, limits: this.#limits });
    this.#bodies = createBodyReader({ clock });
    const { headersMs, requestMs, idleMs } = this.#limits;
    this.#server = createServer({
      ...tlsOptions(options.tls),
      // Clients may authenticate by token instead; a client with neither gets a Status.
      requestCert: true,
      rejectUnauthorized: false,
      ALPNProtocols: ["http/1.1"],
      minVersion: "TLSv1.2",
      handshakeTimeout: headersMs,
      headersTimeout: headersMs,
      requestTimeout: requestMs,
      keepAliveTimeout: idleMs,
      connectionsCheckingInterval: Math.min(headersMs, 5_000),
      maxHeaderSize: maxHeaderBytes,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
    });
    this.#server.on("request", (request, response) => void this.#run(request, response));
    this.#server.on("upgrade", (request, socket, head) => this.#onUpgrade(request, socket, head));
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
      else socket.end(malformedRequestResponse(error));
    });
    this.#server.on("secureConnection", readThroughStream);
    this.#server.on("tlsClientError", (_error, socket) => socket.destroy());
  }

  async listen(): Promise<void> {
    const { port, bindAddress = "127.0.0.1" } = this.#options;
    await listen(this.#server, port, bindAddress);
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `https://${reachableHost(this.#options.bindAddress ?? "127.0.0.1")}:${this.port}`;
  }

  setTls(tls: ServerTls): void {
    this.#server.setSecureContext(tlsOptions(tls));
  }

  close(): Promise<void> {
    this.#closed ??= this.#shutDown();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #shutDown(): Promise<void> {
    this.#isClosing = true;
    const server = this.#server;
    const deadline = this.#options.clock.setTimer(this.#limits.drainMs, () => server.closeAllConnections(), {
      background: true,
    });
    const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
    this.#responder.endWatches();
    for (const socket of this.#upgraded) socket.destroy();
    server.closeIdleConnections();
    await closed;
    deadline.cancel();
    await this.#bodies.close();
  }

  #onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    // The response is used if the request turns out not to switch protocols.
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(request.socket);
    response.on("finish", () => socket.end());
    void this.#run(request, response, { socket, head });
  }

  async #run(request: IncomingMessage, response: ServerResponse, upgrade?: Upgrade): Promise<void> {
    try {
      await this.#serve(request, response, upgrade);
    } catch (error) {
      (upgrade?.socket ?? response).destroy();
      if (!isConnectionError(error)) this.#report(error, request, "");
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse, upgrade: Upgrade | undefined): Promise<void> {
    const auditId = requestedAuditId(request) ?? this.#options.newId();
    const accepted = acceptedRepresentations(request.headers.accept);
    const target = splitTarget(request.url ?? "/");
    const headers: ResponseHeaders = { "audit-id": auditId, "cache-control": "no-cache, private" };
    if (this.#isClosing) headers["connection"] = "close";
    const exchange = { request, response, accepted, query: target.query, headers };
    const abort = createLazyAbort();
    const start = this.#options.clock.now();
    response.on("close", () => {
      this.#recordRequest(request, target, response.statusCode, start);
      if (!response.writableFinished) abort.abort(new ClientDisconnectedError());
      // A connection whose response ends during shutdown becomes idle after `closeIdleConnections` ran.
      if (this.#isClosing) setImmediate(() => this.#server.closeIdleConnections());
    });
    try {
      const user = this.#options.authenticate({
        headers: credentialHeaders(request),
        clientCertificate: clientCertificateOf(request.socket as TLSSocket),
      });
      const isUpgrade = upgrade !== undefined;
      const bodies = this.#bodies;
      const pipeline = pipelineRequest({ request, target, user, accepted, abort, isUpgrade, bodies });
      const admission = await this.#admit(pipeline, headers);
      try {
        const outcome = await this.#options.handle(pipeline);
        if (outcome.kind === "list") this.#recordSize(pipeline, outcome);
        if (outcome.kind !== "upgrade") await this.#responder.send(exchange, outcome);
        else if (upgrade !== undefined) this.#switchProtocol(request, response, outcome, upgrade);
        else throw statusError("BadRequest", "Upgrade request required");
      } finally {
        admission?.release();
      }
    } catch (error) {
      await this.#fail(exchange, error, auditId);
    }
  }

  /** Waits for a seat. It is held until the response is sent, which bounds the memory of responses as well. */
  async #admit(request: PipelineRequest, headers: ResponseHeaders): Promise<Admission | undefined> {
    const { flow } = this.#options;
    const info = flow && attributesOf(request);
    if (flow === undefined || info === undefined) return undefined;
    const seats = this.#estimator.seatsOf(info, request.query?.["limit"]);
    const admission = await flow.admit(request.user, info, seats, () => request.signal ?? new AbortController().signal);
    Object.assign(headers, admission.headers);
    return admission;
  }

  #recordRequest(request: IncomingMessage, { path, query }: Target, code: number, start: number): void {
    const { onRequest, clock } = this.#options;
    const info = onRequest && attributesOf({ method: request.method ?? "", path, query });
    if (info === undefined) return;
    const isLong = info.isResource && (info.verb === "watch" || longRunningSubresources.has(info.subresource));
    onRequest?.(info, code, isLong ? undefined : clock.now() - start);
  }

  #recordSize(request: PipelineRequest, { items, listMeta }: ListOutcome): void {
    const info = attributesOf(request);
    if (info === undefined || listMeta.continue !== undefined) return;
    const sample = items.slice(0, sampledItems);
    const bytes = sample.reduce((sum, item) => sum + item.bytes.length, 0);
    this.#estimator.record(info, { items: items.length, bytes: (bytes / Math.max(1, sample.length)) * items.length });
  }

  async #fail(exchange: Exchange, error: unknown, auditId: string): Promise<void> {
    const { request, response } = exchange;
    if (response.destroyed || request.socket.destroyed) return;
    if (!isStatusError(error)) this.#report(error, request, auditId);
    if (response.headersSent) {
      // It is too late for a Status: an aborted response is the only signal left.
      response.destroy();
      return;
    }
    const message = `Internal error occurred: see the server's log for audit id ${auditId}`;
    const { status } = isStatusError(error) ? error : statusError("InternalError", message);
    await this.#responder.fail(exchange, status);
  }

  #switchProtocol(
    request: IncomingMessage,
    response: ServerResponse,
    outcome: UpgradeOutcome,
    { socket, head }: Upgrade,
  ): void {
    response.detachSocket(request.socket);
    request.socket.setTimeout(0);
    if (this.#isClosing) {
      socket.destroy();
      return;
    }
    this.#upgraded.add(socket);
    socket.on("close", () => this.#upgraded.delete(socket));
    outcome.connect({ socket, head, url: request.url ?? "/", headers: request.headers });
  }

  #report(error: unknown, request: IncomingMessage, auditId: string): void {
    const { path } = splitTarget(request.url ?? "/");
    this.#options.onError?.(error, { method: request.method ?? "", path, auditId });
  }
}

/**
 * Makes Node's parser read the connection as a stream rather than from its handle. From the handle, it fails with `HPE_PAUSED` when
 * a request of several TLS records arrives before the previous response is flushed: pausing the handle does not stop records that are
 * already decrypted (`onParserExecuteCommon` in Node 20). Any listener for `data` makes it switch.
 */
function readThroughStream(socket: TLSSocket): void {
  const listener = (): void => undefined;
  socket.on("data", listener);
  socket.off("data", listener);
}

/** Items of a list whose size is measured. */
const sampledItems = 20;

/** The attributes of a request; undefined for a malformed path, which the pipeline rejects. */
function attributesOf(request: Parameters<typeof requestInfo>[0]): RequestInfo | undefined {
  try {
    return requestInfo(request);
  } catch {
    return undefined;
  }
}

/** The client closed the connection before its response was complete. The reason of the request's abort signal. */
export class ClientDisconnectedError extends Error {
  readonly code = "ECONNRESET";

  constructor() {
    super("the client disconnected");
    this.name = "ClientDisconnectedError";
  }
}

/** The host in a URL that reaches a server listening on `bindAddress` from this machine. */
function reachableHost(bindAddress: string): string {
  if (bindAddress === "0.0.0.0") return "127.0.0.1";
  const address = bindAddress === "::" ? "::1" : bindAddress;
  return address.includes(":") ? `[${address}]` : address;
}

function tlsOptions(tls: ServerTls): { cert: string; key: string; ca: string } {
  return { cert: tls.certificate, key: tls.key, ca: tls.clientAuthority };
}
