import type { Clock } from "@keelson/api-machinery/time";
import type { Auditor } from "../../audit/auditor.ts";
import type { Authenticate } from "../../auth/authentication/authenticator.ts";
import type { Handle } from "../../endpoints/outcome.ts";
import type { RequestInfo } from "../../endpoints/request-info.ts";
import type { FlowController } from "../../flowcontrol/flow-controller.ts";
import type { ToTable } from "../encode.ts";
import type { HttpLimits } from "./http-limits.ts";

/** The server's certificates in PEM. */
export interface ServerTls {
  readonly certificate: string;
  readonly key: string;
  /** The authority that signs accepted client certificates. */
  readonly clientAuthority: string;
}

/** A Unix socket for clients on this machine that hold tokens. Its directory is open to the user of the server only. */
export interface LocalSocket {
  /** At most 107 bytes. Its directory is created, and a socket that a killed server left behind is replaced. */
  readonly path: string;
  /** Identifies the sender of a request on this socket. There are no client certificates. */
  readonly authenticate: Authenticate;
  /** Called if the socket cannot be created; the server then runs without it. */
  readonly onFailure: (error: unknown) => void;
}

/** Options of `startHttpServer`. */
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
  /** Also serve HTTP without TLS on a Unix socket. Default: no socket. */
  readonly localSocket?: LocalSocket;
  readonly clock: Clock;
  /** Generates audit ids. */
  readonly newId: () => string;
  /** Called with internal errors, which clients see as 500. Default: ignored. */
  readonly onError?: (error: unknown, request: FailedRequest) => void;
  readonly limits?: Partial<HttpLimits>;
  /** Called after each request, with its duration unless it is long-running. */
  readonly onRequest?: (info: RequestInfo, code: number, durationMs: number | undefined) => void;
  /** Records requests in an audit log. Default: none. */
  readonly auditor?: Auditor;
  /** Whether requests of a path are passed on to an extension API server. Default: none are. */
  readonly isAggregated?: (path: string) => boolean;
  /** Limits the concurrency of requests. Default: unlimited. */
  readonly flow?: Pick<FlowController, "admit">;
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
