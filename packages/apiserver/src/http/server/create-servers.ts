import { createServer as createHttpServer, type Server as HttpServer, type ServerOptions } from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import { DEFAULT_CIPHERS, type TLSSocket } from "node:tls";
import { type HttpLimits, maxHeaderBytes } from "./http-limits.ts";
import type { ServerTls } from "./http-server-options.ts";

/** Creates an HTTPS server with HTTP/1.1 and optional client certificates. It does not listen yet. */
export function createTlsServer(tls: ServerTls, limits: HttpLimits): HttpsServer {
  const server = createHttpsServer({
    ...connectionOptions(limits),
    ...tlsOptions(tls),
    // Clients may authenticate by token instead; a client with neither gets a Status.
    requestCert: true,
    rejectUnauthorized: false,
    ALPNProtocols: ["http/1.1"],
    minVersion: "TLSv1.2",
    ciphers: cipherSuites,
    handshakeTimeout: limits.headersMs,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 30_000,
  });
  server.on("secureConnection", readThroughStream);
  server.on("tlsClientError", (_error, socket) => socket.destroy());
  return server;
}

/** Those of Node.js, with AES-128 first, as in kube-apiserver: a watch with many watchers mostly encrypts, which AES-256 makes slower by a third. */
const cipherSuites = [
  "TLS_AES_128_GCM_SHA256",
  ...DEFAULT_CIPHERS.split(":").filter((name) => name !== "TLS_AES_128_GCM_SHA256"),
].join(":");

/** Creates an HTTP server without TLS, for a Unix socket. It does not listen yet. */
export function createPlainServer(limits: HttpLimits): HttpServer {
  return createHttpServer(connectionOptions(limits));
}

/** The certificates as Node.js takes them. */
export function tlsOptions(tls: ServerTls): { readonly cert: string; readonly key: string; readonly ca: string } {
  return { cert: tls.certificate, key: tls.key, ca: tls.clientAuthority };
}

function connectionOptions({ headersMs, requestMs, idleMs }: HttpLimits): ServerOptions {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(headersMs, 5_000),
    maxHeaderSize: maxHeaderBytes,
  };
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
