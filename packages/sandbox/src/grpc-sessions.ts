import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * Connections to one gRPC server whose failure never ends this process: pass it to each transport as `sessionManager`.
 * `Http2SessionManager` 2.1 removes its error listener as soon as a request finds the session destroyed, but Node.js emits the session's
 * error only afterwards, which is then uncaught.
 */
export class GrpcSessions extends Http2SessionManager {
  #guarded: ClientHttp2Session | undefined;

  override async request(...args: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...args);
    const session = stream.session as ClientHttp2Session | undefined;
    // The streams of the session report the error.
    if (session !== this.#guarded) session?.on("error", () => {});
    this.#guarded = session;
    return stream;
  }
}
