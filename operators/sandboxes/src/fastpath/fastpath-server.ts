import { once } from "node:events";
import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { Code, ConnectError, type ConnectRouter, type Interceptor } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { hasToken } from "../bearer-token.ts";

/** A listening gRPC server. */
export interface FastPathServer {
  readonly url: string;
  close(): Promise<void>;
}

const maxMessageBytes = 1 << 20;
const maxSessions = 256;

/** Serves gRPC, Connect and gRPC-web without TLS; every call needs the bearer token. */
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
  const server: Http2Server = createServer(
    { settings: { maxConcurrentStreams: 256 } },
    connectNodeAdapter({ routes: options.routes, interceptors: [authenticate], readMaxBytes: maxMessageBytes }),
  );
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    if (sessions.size >= maxSessions) {
      session.destroy();
      return;
    }
    sessions.add(session);
    session.on("error", () => {});
    session.once("close", () => sessions.delete(session));
  });
  server.listen(options.port, options.bindAddress);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${options.bindAddress}:${port}`,
    async close() {
      for (const session of sessions) session.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
