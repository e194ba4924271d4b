import { type Client, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { FastPathService } from "./generated/fastpath/v1/fastpath_pb.ts";
import { SandboxFiles } from "./generated/keelson/sandboxes/v1/files_pb.ts";
import { SandboxLifecycle } from "./generated/keelson/sandboxes/v1/lifecycle_pb.ts";
import { SandboxProcesses } from "./generated/keelson/sandboxes/v1/processes_pb.ts";
import { SandboxStreams } from "./generated/keelson/sandboxes/v1/streams_pb.ts";
import { SandboxError } from "./sandbox-error.ts";

/** Where the sandboxes' gRPC server is and how calls are authenticated. */
export interface ConnectionOptions {
  /** `HOST:PORT` or a URL. Default: `KEELSON_SANDBOX_ENDPOINT`, else `127.0.0.1:9090`. */
  readonly endpoint?: string;
  /** The bearer token. Default: `KEELSON_SANDBOX_TOKEN`, else the content of the file that `KEELSON_SANDBOX_TOKEN_FILE` names. */
  readonly token?: string;
  /** Namespace of the sandboxes. Default: `default`. */
  readonly namespace?: string;
  /**
   * Replaces the connection, `endpoint` and `token` included. In a browser: the transport of `@connectrpc/connect-web`, with an
   * interceptor that sets the `authorization` header, to a proxy of the same origin.
   */
  readonly transport?: Transport;
}

/** Clients of the server's services. */
export interface Connection {
  readonly namespace: string;
  readonly sandboxes: Client<typeof FastPathService>;
  readonly lifecycle: Client<typeof SandboxLifecycle>;
  readonly processes: Client<typeof SandboxProcesses>;
  readonly files: Client<typeof SandboxFiles>;
  readonly streams: Client<typeof SandboxStreams>;
}

/** The server limits its connections, so unused ones are closed. */
const idleConnectionTimeoutMs = 10_000;

/** Detects a server that has disappeared, also while a call waits for its output. */
const pingIntervalMs = 30_000;

/** Creates a connection. The first call opens it. */
export async function openConnection(options: ConnectionOptions): Promise<Connection> {
  const transport = options.transport ?? (await createTransport(options));
  return {
    namespace: options.namespace ?? "default",
    sandboxes: createClient(FastPathService, transport),
    lifecycle: createClient(SandboxLifecycle, transport),
    processes: createClient(SandboxProcesses, transport),
    files: createClient(SandboxFiles, transport),
    streams: createClient(SandboxStreams, transport),
  };
}

// Node.js modules are loaded here only: with a transport of its own, the package runs in browsers.
async function createTransport({ endpoint, token }: ConnectionOptions): Promise<Transport> {
  const { env } = process;
  const address = endpoint ?? env.KEELSON_SANDBOX_ENDPOINT ?? "127.0.0.1:9090";
  const baseUrl = /^https?:/.test(address) ? address : `http://${address}`;
  if (!URL.canParse(baseUrl))
    throw new SandboxError("InvalidArgument", `endpoint: ${address} must have the form 127.0.0.1:9090`);
  const secret = parseToken(token ?? env.KEELSON_SANDBOX_TOKEN ?? (await readToken(env.KEELSON_SANDBOX_TOKEN_FILE)));
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${secret}`);
    return next(request);
  };
  const { createGrpcTransport } = await import("@connectrpc/connect-node");
  return createGrpcTransport({ baseUrl, interceptors: [authorize], idleConnectionTimeoutMs, pingIntervalMs });
}

/** The token without surrounding white space. An invalid header value would be part of the error of every call. */
function parseToken(text: string): string {
  const token = text.trim();
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new SandboxError("InvalidArgument", "token: must be printable ASCII characters without spaces");
  return token;
}

async function readToken(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new SandboxError("Unauthenticated", "token: is required, or set KEELSON_SANDBOX_TOKEN or KEELSON_SANDBOX_TOKEN_FILE");
  const { readFile } = await import("node:fs/promises");
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new SandboxError("Unauthenticated", `KEELSON_SANDBOX_TOKEN_FILE: could not read ${file}`, { cause: error });
  }
}
