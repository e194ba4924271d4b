import { randomUUID } from "node:crypto";
import { createAuthenticator } from "../auth/authentication/authenticator.ts";
import { createStaticTokens } from "../auth/authentication/static-tokens.ts";
import type { Pki } from "../auth/certificates/pki.ts";
import { startHttpServer } from "../http/server/http-server.ts";
import type { HttpServer, ServerTls } from "../http/server/http-server-options.ts";
import { toTable } from "../table/table.ts";
import type { Backend } from "./backend.ts";
import type { ServeApiOptions } from "./serve-options.ts";

/** The listeners of an API server. */
export interface ApiListener {
  readonly http: HttpServer;
  /** Path of the Unix socket. Undefined if none was requested or it could not be created. */
  readonly socketPath: string | undefined;
}

/** Starts to listen on HTTPS, and on a Unix socket if `socketPath` is set. Rejects with a `ListenError` if the port is in use. */
export async function startListener(options: ServeApiOptions, backend: Backend): Promise<ApiListener> {
  const { bindAddress = "127.0.0.1", port, clock } = options;
  const { server, aggregator, metrics, flow, auditor, state, onError } = backend;
  const { authorizer } = server;
  const now = (): number => clock.now();
  const staticTokens = createStaticTokens(options.staticTokens ?? []);
  let { socketPath } = options;
  const localSocket = socketPath !== undefined && {
    path: socketPath,
    authenticate: createAuthenticator({ tokens: [staticTokens], authorizer, now, anonymous: false }),
    onFailure(error: unknown) {
      socketPath = undefined;
      onError(error);
    },
  };
  const http = await startHttpServer({
    flow,
    onRequest: (info, code, durationMs) => metrics.record(info, code, durationMs),
    handle: server.handle,
    authenticate: createAuthenticator({
      tokens: [staticTokens, (token) => server.tokens.verify(token)?.user],
      authorizer,
      now,
      anonymous: options.anonymous ?? true,
    }),
    tls: tlsOf(state.pki),
    toTable,
    bindAddress,
    port,
    clock,
    newId: randomUUID,
    isAggregated: (path) => aggregator.includes(path),
    ...(localSocket !== false && { localSocket }),
    ...(auditor !== undefined && { auditor }),
    onError,
  });
  return { http, socketPath };
}

/** The server's certificate, and the authority of client certificates. */
export function tlsOf({ server, authority }: Pki): ServerTls {
  return { ...server, clientAuthority: authority.certificate };
}
