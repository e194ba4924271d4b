import { type IncomingMessage, type Server as PlainServer, ServerResponse } from "node:http";
import type { Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { isStatusError, statusError } from "@keelson/api-machinery";
import type { Authenticate } from "../../auth/authentication/authenticator.ts";
import { clientCertificateOf } from "../../auth/authentication/client-certificate.ts";
import type { UpgradeOutcome } from "../../endpoints/outcome.ts";
import type { RequestInfo } from "../../endpoints/request-info.ts";
import type { UserInfo } from "../../registry/served-resource.ts";
import { createBodyReader, type BodyReader } from "../body/request-body.ts";
import { createPlainServer, createTlsServer, tlsOptions } from "./create-servers.ts";
import { ExchangeAudit } from "../exchange-audit.ts";
import { defaultLimits, type HttpLimits } from "./http-limits.ts";
import type { HttpServer, HttpServerOptions, ServerTls } from "./http-server-options.ts";
import { pipelineRequest } from "../http-request.ts";
import { createLazyAbort } from "../lazy-abort.ts";
import { listen, listenOnSocket, reachableHost } from "./listen.ts";
import { isConnectionError, malformedRequestResponse } from "./malformed-request.ts";
import { acceptedRepresentations } from "../negotiation.ts";
import { PipelinedRequests } from "./pipelined-requests.ts";
import { RequestAccounting } from "../request-accounting.ts";
import { credentialHeaders, requestedAuditId, splitTarget } from "../request-target.ts";
import { type Exchange, Responder } from "../responder.ts";
import type { ResponseHeaders } from "../send.ts";

/**
 * Serves the Kubernetes API over HTTPS (HTTP/1.1), and optionally over HTTP on a Unix socket.
 *
 * **Errors**: rejects with a {@link ListenError} if the port is in use or may not be opened.
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const server = new ApiHttpServer(options);
  await server.listen();
  return server;
}

interface AuditedExchange extends Exchange {
  readonly audit: ExchangeAudit;
}

interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

interface Incoming {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly authenticate: Authenticate;
  readonly upgrade?: Upgrade;
}

class ApiHttpServer implements HttpServer {
  readonly #options: HttpServerOptions;
  readonly #limits: HttpLimits;
  readonly #responder: Responder;
  readonly #bodies: BodyReader;
  readonly #server: Server;
  /** The server of the Unix socket. */
  readonly #local: PlainServer | undefined;
  readonly #accounting: RequestAccounting;
  readonly #pipelined = new PipelinedRequests();
  /** Connections that switched to another protocol. */
  readonly #upgraded = new Set<Duplex>();
  #port = 0;
  #isClosing = false;
  #closed: Promise<void> | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#responder = new Responder({ ...options, limits: this.#limits });
    this.#bodies = createBodyReader(options);
    this.#accounting = new RequestAccounting(options);
    this.#server = createTlsServer(options.tls, this.#limits);
    this.#serveOn(this.#server, options.authenticate);
    if (options.localSocket === undefined) return;
    this.#local = createPlainServer(this.#limits);
    this.#serveOn(this.#local, options.localSocket.authenticate);
  }

  async listen(): Promise<void> {
    const { port, bindAddress = "127.0.0.1", localSocket } = this.#options;
    await listen(this.#server, port, bindAddress);
    this.#port = (this.#server.address() as AddressInfo).port;
    if (this.#local === undefined || localSocket === undefined) return;
    await listenOnSocket(this.#local, localSocket.path).catch(localSocket.onFailure);
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
    const servers = this.#servers();
    const closeAll = (): void => servers.forEach((server) => server.closeAllConnections());
    const deadline = this.#options.clock.setTimer(this.#limits.drainMs, closeAll, { background: true });
    const closed = servers.map((server) => new Promise<void>((resolve) => void server.close(() => resolve())));
    this.#responder.endWatches();
    for (const socket of this.#upgraded) socket.destroy();
    this.#closeIdleConnections();
    await Promise.all(closed);
    deadline.cancel();
    await this.#bodies.close();
  }

  #servers(): readonly PlainServer[] {
    return this.#local === undefined ? [this.#server] : [this.#server, this.#local];
  }

  #closeIdleConnections(): void {
    for (const server of this.#servers()) server.closeIdleConnections();
  }

  #serveOn(server: PlainServer, authenticate: Authenticate): void {
    server.on("request", (request, response) => {
      this.#pipelined.add(request, response, () => void this.#run({ request, response, authenticate }));
    });
    server.on("upgrade", (request, socket, head) => this.#onUpgrade(request, authenticate, { socket, head }));
    server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      if (!socket.writable || error.code === "ECONNRESET") socket.destroy();
      else this.#pipelined.reject(socket, () => socket.end(malformedRequestResponse(error)));
    });
  }

  #onUpgrade(request: IncomingMessage, authenticate: Authenticate, upgrade: Upgrade): void {
    const { socket } = upgrade;
    socket.on("error", () => socket.destroy());
    // The connection still belongs to the response before it. Clients that upgrade wait for responses.
    if (this.#pipelined.isServing(request)) {
      socket.destroy();
      return;
    }
    // The response is used if the request turns out not to switch protocols.
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(request.socket);
    response.on("finish", () => socket.end());
    void this.#run({ request, response, authenticate, upgrade });
  }

  async #run(incoming: Incoming): Promise<void> {
    const { request, response, upgrade } = incoming;
    try {
      await this.#serve(incoming);
    } catch (error) {
      (upgrade?.socket ?? response).destroy();
      if (!isConnectionError(error)) this.#report(error, request, "");
    }
  }

  async #serve({ request, response, authenticate, upgrade }: Incoming): Promise<void> {
    const auditId = requestedAuditId(request) ?? this.#options.newId();
    const accepted = acceptedRepresentations(request.headers.accept);
    const target = splitTarget(request.url ?? "/");
    const headers: ResponseHeaders = { "audit-id": auditId, "cache-control": "no-cache, private" };
    if (this.#isClosing) headers["connection"] = "close";
    const audit = new ExchangeAudit(this.#options.auditor, request, target, auditId);
    const exchange = { request, response, accepted, query: target.query, headers, audit };
    const abort = createLazyAbort();
    const start = this.#options.clock.now();
    let info: RequestInfo | undefined;
    response.on("close", () => {
      this.#accounting.record(request.method ?? "", target, info, response.statusCode, start);
      audit.complete(response.headersSent ? response.statusCode : undefined);
      if (!response.writableFinished) abort.abort(new ClientDisconnectedError());
      // A connection whose response ends during shutdown becomes idle after `closeIdleConnections` ran.
      if (this.#isClosing) setImmediate(() => this.#closeIdleConnections());
    });
    try {
      const user = identify(request, authenticate, audit);
      const isUpgrade = upgrade !== undefined;
      const bodies = this.#bodies;
      const pipeline = pipelineRequest({
        request,
        target,
        user,
        audit: audit.record,
        accepted,
        abort,
        isUpgrade,
        bodies,
        isAggregated: this.#options.isAggregated,
      });
      // A HEAD request to a non-resource path is recorded as one.
      if (request.method !== "HEAD") info = pipeline.info;
      const admission = await this.#accounting.admit(pipeline);
      Object.assign(headers, admission?.headers);
      let isOpen = false;
      try {
        const outcome = await this.#options.handle(pipeline);
        // An upgrade is recorded once its target has accepted or refused it.
        if (outcome.kind !== "upgrade") audit.record?.respond(outcome);
        if (outcome.kind === "list") this.#accounting.recordSize(pipeline, outcome);
        if (outcome.kind !== "upgrade") await this.#responder.send(exchange, outcome);
        else if (upgrade !== undefined) {
          isOpen = admission?.isStream === true && !upgrade.socket.closed;
          if (isOpen) upgrade.socket.once("close", () => admission?.release());
          this.#switchProtocol(exchange, outcome, upgrade, auditId);
        } else throw statusError("BadRequest", "Upgrade request required");
      } finally {
        if (!isOpen) admission?.release();
      }
    } catch (error) {
      await this.#fail(exchange, error, auditId);
    }
  }

  async #fail(exchange: AuditedExchange, error: unknown, auditId: string): Promise<void> {
    const { request, response, audit } = exchange;
    if (isStatusError(error)) audit.fail(error.status);
    else if (!isConnectionError(error)) audit.record?.panic(error);
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
    { request, response, audit }: AuditedExchange,
    outcome: UpgradeOutcome,
    { socket, head }: Upgrade,
    auditId: string,
  ): void {
    let code: number | undefined;
    const onStatus = (status: number): void => {
      code = status;
      audit.record?.respond(outcome, status);
    };
    socket.on("close", () => audit.complete(code));
    response.detachSocket(request.socket);
    request.socket.setTimeout(0);
    if (this.#isClosing) {
      socket.destroy();
      return;
    }
    this.#upgraded.add(socket);
    socket.on("close", () => this.#upgraded.delete(socket));
    try {
      outcome.connect({ socket, head, url: request.url ?? "/", headers: request.headers, onStatus });
    } catch (error) {
      // The response is detached, so nothing else would end the connection.
      socket.destroy();
      if (!isStatusError(error)) this.#report(error, request, auditId);
      throw error;
    }
  }

  #report(error: unknown, request: IncomingMessage, auditId: string): void {
    const { path } = splitTarget(request.url ?? "/");
    this.#options.onError?.(error, { method: request.method ?? "", path, auditId });
  }
}

function identify(request: IncomingMessage, authenticate: Authenticate, audit: ExchangeAudit): UserInfo {
  const { socket } = request;
  const clientCertificate = socket instanceof TLSSocket ? clientCertificateOf(socket) : undefined;
  const user = authenticate({ headers: credentialHeaders(request), clientCertificate }, (sender) => audit.begin(sender));
  audit.serveAs(user);
  return user;
}

/** The client closed the connection before its response was complete. The reason of the request's abort signal. */
class ClientDisconnectedError extends Error {
  readonly code = "ECONNRESET";

  constructor() {
    super("the client disconnected");
    this.name = "ClientDisconnectedError";
  }
}
