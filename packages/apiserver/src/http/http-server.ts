import { randomUUID } from "node:crypto";
import { type IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { isStatusError, type Status, StatusError, statusError } from "@keelson/api-machinery";
import { type Clock, systemClock } from "@keelson/api-machinery/time";
import type { Authenticate } from "../auth/authentication/authenticator.ts";
import { clientCertificateOf } from "../auth/authentication/client-certificate.ts";
import type { Handle, Outcome, PipelineRequest } from "../endpoints/outcome.ts";
import type { UserInfo } from "../registry/served-resource.ts";
import type { ToTable } from "./encode.ts";
import { listen } from "./listen.ts";
import { acceptedRepresentations, notAcceptable, type Representation } from "./negotiation.ts";
import { readBody, type RequestBody } from "./request-body.ts";
import {
  credentialHeaders,
  includeObject,
  isApiMethod,
  isResourcePath,
  plainHeaders,
  requestedAuditId,
  splitTarget,
  type Target,
} from "./request-target.ts";
import { createLazyAbort, type LazyAbort } from "./lazy-abort.ts";
import { createResponder } from "./responder.ts";
import type { ResponseHeaders } from "./send.ts";
import type { WatchLimits } from "./watch-stream.ts";

/** Certificates of the server, PEM. */
export interface ServerTls {
  readonly certificate: string;
  readonly key: string;
  /** Signs the client certificates that are taken. */
  readonly clientAuthority: string;
}

/** What {@link startHttpServer} takes. */
export interface HttpServerOptions {
  /** From a request to its answer. */
  readonly handle: Handle;
  /** Who sent a request; throws a StatusError (401, or 403 for impersonation). */
  readonly authenticate: Authenticate;
  readonly tls: ServerTls;
  readonly toTable: ToTable;
  /** Default `127.0.0.1`: nobody but this machine. */
  readonly bindAddress?: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Makes audit ids. Default: random UUIDs. */
  readonly newId?: () => string;
  /** Is told of errors that are Keelson's own: what the client sees as 500. Default: nothing. */
  readonly onError?: (
    error: unknown,
    request: { readonly method: string; readonly path: string; readonly auditId: string },
  ) => void;
  readonly limits?: Partial<HttpLimits>;
}

/** Bounds that keep slow or broken clients from holding the server. */
export interface HttpLimits extends WatchLimits {
  /** Time for a request's headers. Default 15 s. */
  readonly headersMs: number;
  /** Time for a whole request with its body. Default 60 s. */
  readonly requestMs: number;
  /** How long a connection may be idle between requests. Default 2 min: longer than clients keep theirs. */
  readonly idleMs: number;
  /** How long `close` waits for answers that are under way. Default 10 s. */
  readonly drainMs: number;
}

const defaultLimits: HttpLimits = {
  headersMs: 15_000,
  requestMs: 60_000,
  idleMs: 120_000,
  drainMs: 10_000,
  stallMs: 60_000,
  pendingBytes: 16 * 1024 * 1024,
};

/** A listening server. */
export interface HttpServer extends AsyncDisposable {
  readonly port: number;
  /** `https://127.0.0.1:6443`. */
  readonly url: string;
  /** Uses other certificates for connections from now on. */
  setTls(tls: ServerTls): void;
  /** Takes no further connections, ends watches, and waits for the rest of the answers, for a while. */
  close(): Promise<void>;
}

/**
 * Serves the Kubernetes API by HTTPS (HTTP/1.1).
 *
 * @throws Error that says what to do when the port is in use or may not be opened.
 */
export async function startHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const { handle, authenticate, bindAddress = "127.0.0.1", clock = systemClock, newId = randomUUID } = options;
  const limits = { ...defaultLimits, ...options.limits };
  const responder = createResponder({ toTable: options.toTable, clock, limits });
  let isClosing = false;

  const server = createServer({
    ...tlsOptions(options.tls),
    // A client without certificate may have a token; who has neither is refused with a Status that says so.
    requestCert: true,
    rejectUnauthorized: false,
    ALPNProtocols: ["http/1.1"],
    minVersion: "TLSv1.2",
    handshakeTimeout: limits.headersMs,
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    keepAliveTimeout: limits.idleMs,
    connectionsCheckingInterval: Math.min(limits.headersMs, 5_000),
    maxHeaderSize: 64 * 1024,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  });

  /** Connections that speak something else by now. */
  const upgraded = new Set<Duplex>();

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    upgrade?: { readonly socket: Duplex; readonly head: Buffer },
  ): Promise<void> {
    const auditId = requestedAuditId(request) ?? newId();
    const accepted = acceptedRepresentations(request.headers.accept);
    const target = splitTarget(request.url ?? "/");
    const headers: ResponseHeaders = { "audit-id": auditId, "cache-control": "no-cache, private" };
    if (isClosing) headers["connection"] = "close";
    const exchange = { request, response, accepted, query: target.query, headers };
    const abort = createLazyAbort();
    response.on("close", () => {
      if (!response.writableFinished) abort.abort(new Error("the client went away"));
      // What was under way when the server began to close leaves an idle connection that nobody else ends.
      if (isClosing) setImmediate(() => server.closeIdleConnections());
    });
    try {
      const user = authenticate({
        headers: credentialHeaders(request),
        clientCertificate: clientCertificateOf(request.socket as TLSSocket),
      });
      const outcome = await answer(request, target, user, accepted, abort, upgrade !== undefined);
      if (outcome.kind === "upgrade") {
        if (upgrade === undefined) throw statusError("BadRequest", "Upgrade request required");
        handOver(request, response, outcome, upgrade);
        return;
      }
      await responder.send(exchange, outcome);
    } catch (error) {
      if (response.destroyed || request.socket.destroyed) return;
      let status: Status;
      if (isStatusError(error)) ({ status } = error);
      else {
        options.onError?.(error, { method: request.method ?? "", path: target.path, auditId });
        status = statusError("InternalError", `Internal error occurred: see the server's log for audit id ${auditId}`).status;
      }
      if (response.headersSent) {
        // Too late for a Status: a broken-off answer is the one sign left.
        response.destroy();
        return;
      }
      await responder.fail(exchange, status);
    }
  }

  function handOver(
    request: IncomingMessage,
    response: ServerResponse,
    outcome: Extract<Outcome, { kind: "upgrade" }>,
    { socket, head }: { readonly socket: Duplex; readonly head: Buffer },
  ): void {
    response.detachSocket(request.socket);
    request.socket.setTimeout(0);
    if (isClosing) {
      socket.destroy();
      return;
    }
    upgraded.add(socket);
    socket.on("close", () => upgraded.delete(socket));
    outcome.connect({ socket, head, url: request.url ?? "/", headers: request.headers });
  }

  async function answer(
    request: IncomingMessage,
    target: Target,
    user: UserInfo,
    accepted: readonly Representation[],
    abort: LazyAbort,
    isUpgrade: boolean,
  ): Promise<Outcome> {
    const method = request.method === "HEAD" ? "GET" : request.method;
    if (!isApiMethod(method))
      throw statusError("MethodNotAllowed", "the server does not allow this method on the requested resource");
    // What follows a request for an upgrade is no body.
    const { body, fault } = isUpgrade ? noForm : await readForm(request, target, accepted);
    const pipelineRequest: PipelineRequest = {
      method,
      path: target.path,
      query: target.query,
      headers: plainHeaders(request),
      get signal() {
        return abort.signal;
      },
      user,
      userAgent: request.headers["user-agent"],
      fault,
    };
    if (body !== undefined && body.value !== undefined) {
      const { value, bytes, duplicateFields } = body;
      Object.assign(pipelineRequest, { body: value, bodyBytes: bytes, duplicateFields });
    }
    return handle(pipelineRequest);
  }

  server.on("request", (request, response) => {
    serve(request, response).catch((error: unknown) => {
      if (!response.destroyed) response.destroy();
      if (!isConnectionError(error))
        options.onError?.(error, { method: request.method ?? "", path: request.url ?? "", auditId: "" });
    });
  });
  // An answer in HTTP where it turns out that the connection does not change its protocol.
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(request.socket);
    response.on("finish", () => socket.end());
    serve(request, response, { socket, head }).catch((error: unknown) => {
      socket.destroy();
      if (!isConnectionError(error))
        options.onError?.(error, { method: request.method ?? "", path: request.url ?? "", auditId: "" });
    });
  });
  // A method that HTTP does not know never becomes a request; it is refused here.
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (!socket.writable || error.code === "ECONNRESET") return void socket.destroy();
    socket.end(refusalOf(error));
  });
  // Half-open, broken or hostile connections: nothing to answer.
  server.on("tlsClientError", (_error, socket) => socket.destroy());

  await listen(server, options.port, bindAddress);
  const { port } = server.address() as AddressInfo;

  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= new Promise((resolve) => {
      isClosing = true;
      const deadline = clock.setTimer(limits.drainMs, () => server.closeAllConnections(), { background: true });
      server.close(() => {
        deadline.cancel();
        resolve();
      });
      responder.endWatches();
      for (const socket of upgraded) socket.destroy();
      server.closeIdleConnections();
    });
    return closed;
  };
  return {
    port,
    url: `https://${reachableHost(bindAddress)}:${port}`,
    setTls: (tls) => server.setSecureContext(tlsOptions(tls)),
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Form {
  readonly body?: RequestBody;
  readonly fault?: StatusError;
}

const noForm: Form = {};

/**
 * The body of a request, or what is wrong with the form of the request. That is not told right away: who may not send the request, or
 * sends it to what is not there, is told that.
 */
async function readForm(request: IncomingMessage, { path, query }: Target, accepted: readonly Representation[]): Promise<Form> {
  try {
    // A patch of an unknown kind is refused before an answer of an unknown kind; otherwise it is the other way round.
    const body = request.method === "PATCH" ? await readBody(request) : undefined;
    if (accepted.length === 0 && isResourcePath(path)) throw notAcceptable();
    includeObject(query);
    if (body !== undefined) return { body };
    return request.method === "GET" || request.method === "HEAD" ? {} : { body: await readBody(request) };
  } catch (error) {
    if (!(error instanceof StatusError)) throw error;
    return { fault: error };
  }
}

/** How this machine reaches a server that listens on `bindAddress`, as a URL has it. */
function reachableHost(bindAddress: string): string {
  if (bindAddress === "0.0.0.0") return "127.0.0.1";
  const address = bindAddress === "::" ? "::1" : bindAddress;
  return address.includes(":") ? `[${address}]` : address;
}

function tlsOptions(tls: ServerTls): { cert: string; key: string; ca: string } {
  return { cert: tls.certificate, key: tls.key, ca: tls.clientAuthority };
}

/** The answer to bytes that are no request, as they go over the wire. */
function refusalOf(error: NodeJS.ErrnoException): string {
  const [line, status] =
    error.code === "HPE_INVALID_METHOD"
      ? [
          "405 Method Not Allowed",
          statusError("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        ]
      : error.code === "HPE_HEADER_OVERFLOW"
        ? ["431 Request Header Fields Too Large", undefined]
        : error.code === "ERR_HTTP_REQUEST_TIMEOUT"
          ? ["408 Request Timeout", undefined]
          : ["400 Bad Request", undefined];
  const body = status === undefined ? "" : JSON.stringify(status.status);
  const type = status === undefined ? "" : "content-type: application/json\r\n";
  return `HTTP/1.1 ${line}\r\nconnection: close\r\n${type}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function isConnectionError(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return code === "ECONNRESET" || code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE" || code === "ERR_STREAM_DESTROYED";
}
